package cli

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096, "1B": 1, "512M": 512 << 20, "2G": 2 << 30, "2g": 2 << 30, "1.5G": 3 << 29,
		"1k": 1024, "1KB": 1024, "1KiB": 1024, "3mib": 3 << 20, "1T": 1 << 40, "15T": 15 << 40, "1P": 1 << 50,
		"7E": 7 << 60, "0.3K": 307, " 8M ": 8 << 20, "9223372036854775807": math.MaxInt64, "200000000": 200000000,
	} {
		got, err := ParseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseSizeRefuses(t *testing.T) {
	for _, text := range []string{"", "M", "-1", "+1", "1e3", "0x10", "1.2.3M", "1.", ".5G", "12X", "1KiBB", "1bb", "1 M", "8E", "99999999999T", "ten"} {
		_, err := ParseSize(text)
		require.ErrorContains(t, err, text, "%q", text)
	}
}

func TestFormatSizeIsReadBack(t *testing.T) {
	require.Equal(t, "331M", FormatSize(331<<20))
	require.Equal(t, "338945K", FormatSize(331<<20+1024))
	require.Equal(t, "4097", FormatSize(4097))
	require.Equal(t, "0", FormatSize(0))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Min(0).Draw(t, "n") >> rapid.IntRange(0, 62).Draw(t, "shift") << rapid.IntRange(0, 40).Draw(t, "zeros")
		if n < 0 {
			return
		}
		back, err := ParseSize(FormatSize(n))
		require.NoError(t, err)
		require.Equal(t, n, back)
	})
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"512M", "1.5G", "8E", "1.2.3M", "0.000001P", "9999999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := ParseSize(text); err == nil && n < 0 {
			t.Fatalf("ParseSize(%q) = %d", text, n)
		}
	})
}

func TestFormatCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 81204: "81,204", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		require.Equal(t, want, FormatCount(n))
	}
	require.Equal(t, "18,446,744,073,709,551,615", FormatCount(uint64(math.MaxUint64)))
}

func TestHumanSize(t *testing.T) {
	require.Equal(t, "1.5MiB", HumanSize(3<<19))
	require.Equal(t, "0B", HumanSize(0))
}

func TestAmount(t *testing.T) {
	var a Amount
	require.NoError(t, a.Set("20%"))
	require.Equal(t, Amount{Percent: 20, Share: true}, a)
	require.Equal(t, "20%", a.String())
	require.Equal(t, int64(21), a.Of(101), "a share is rounded up")
	require.NoError(t, a.Set("64M"))
	require.Equal(t, Amount{Bytes: 64 << 20}, a)
	require.Equal(t, int64(64<<20), a.Of(5))
	require.NoError(t, a.Set("0.5%"))
	require.Equal(t, "0.5%", a.String())
	require.NoError(t, a.Set("1000%"))
	require.Equal(t, int64(math.MaxInt64), a.Of(math.MaxInt64))
	for _, text := range []string{"", "%", "-1%", "1001%", "NaN%", "Inf%", "1e2%", "x"} {
		require.Error(t, a.Set(text), text)
	}
}
