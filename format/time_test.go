package format

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inodeTimes is the four times of an inode.
var inodeTimes = []struct {
	name string
	get  func(Inode) Time
	set  func(Inode, Time)
}{
	{"atime", Inode.Atime, Inode.SetAtime},
	{"ctime", Inode.Ctime, Inode.SetCtime},
	{"mtime", Inode.Mtime, Inode.SetMtime},
	{"crtime", Inode.Crtime, Inode.SetCrtime},
}

// timeCases are the points where the encoding changes, with what is stored.
var timeCases = []struct {
	text      string
	sec       int64
	lo, extra uint32
}{
	{"1901-12-13T20:45:52Z", -1 << 31, 0x80000000, 0},
	{"1901-12-13T20:45:53Z", -1<<31 + 1, 0x80000001, 0},
	{"1960-01-01T00:00:00Z", -315619200, 0xed300880, 0},
	{"1969-12-31T23:59:59Z", -1, 0xffffffff, 0},
	{"1970-01-01T00:00:00Z", 0, 0, 0},
	{"2038-01-19T03:14:07Z", 1<<31 - 1, 0x7fffffff, 0},
	{"2038-01-19T03:14:08Z", 1 << 31, 0x80000000, 1},
	{"2106-02-07T06:28:15Z", 1<<32 - 1, 0xffffffff, 1},
	{"2106-02-07T06:28:16Z", 1 << 32, 0, 1},
	{"2174-02-25T09:42:23Z", 1<<32 + 1<<31 - 1, 0x7fffffff, 1},
	{"2174-02-25T09:42:24Z", 1<<32 + 1<<31, 0x80000000, 2},
	{"2242-03-16T12:56:31Z", 2<<32 - 1, 0xffffffff, 2},
	{"2242-03-16T12:56:32Z", 2 << 32, 0, 2},
	{"2310-04-04T16:10:39Z", 2<<32 + 1<<31 - 1, 0x7fffffff, 2},
	{"2310-04-04T16:10:40Z", 2<<32 + 1<<31, 0x80000000, 3},
	{"2378-04-22T19:24:48Z", 3 << 32, 0, 3},
	{"2446-05-10T22:38:55Z", 3<<32 + 1<<31 - 1, 0x7fffffff, 3},
}

func TestTimeCodec(t *testing.T) {
	for _, test := range timeCases {
		at, err := time.Parse(time.RFC3339, test.text)
		require.NoError(t, err)
		require.Equal(t, test.sec, at.Unix(), test.text)
		for _, nsec := range []uint32{0, 1, 123456789, 999999999} {
			want := Time{Sec: test.sec, Nsec: nsec}
			lo, extra := EncodeTime(want)
			require.Equal(t, test.lo, lo, test.text)
			require.Equal(t, nsec<<2|test.extra, extra, test.text)
			require.Equal(t, want, DecodeTime(lo, extra), test.text)
			require.Equal(t, want, TimeOf(want.Time()), test.text)
		}
	}
}

// Every pair of words decodes to a time in range that encodes to a pair of the same time.
func TestTimeDecodeAll(t *testing.T) {
	for _, lo := range []uint32{0, 1, 0x7fffffff, 0x80000000, 0xffffffff} {
		for epoch := range uint32(4) {
			for _, nsec := range []uint32{0, 999999999, 1000000000, math.MaxUint32 >> 2} {
				at := DecodeTime(lo, nsec<<2|epoch)
				require.Equal(t, int64(int32(lo))+int64(epoch)<<32, at.Sec)
				require.Equal(t, min(nsec, 999999999), at.Nsec)
				require.Equal(t, at, DecodeTime(EncodeTime(at)))
			}
		}
	}
}

func TestTimeClamp(t *testing.T) {
	tests := []struct{ in, want Time }{
		{Time{Sec: math.MinInt64}, MinTime},
		{Time{Sec: math.MinInt32 - 1, Nsec: 999999999}, MinTime},
		{MinTime, MinTime},
		{MaxTime, MaxTime},
		{Time{Sec: MaxTime.Sec + 1}, MaxTime},
		{Time{Sec: math.MaxInt64, Nsec: 5}, MaxTime},
		{Time{Sec: 5, Nsec: 6}, Time{Sec: 5, Nsec: 6}},
	}
	for _, test := range tests {
		require.Equal(t, test.want, test.in.Clamp())
		require.Equal(t, test.want, DecodeTime(EncodeTime(test.in)))
	}
	require.Equal(t, "2446-05-10T22:38:55.999999999Z", MaxTime.Time().Format(time.RFC3339Nano))
	require.Equal(t, "1901-12-13T20:45:52Z", MinTime.Time().Format(time.RFC3339Nano))
}

func TestTimeOrder(t *testing.T) {
	require.True(t, Time{1, 5}.Before(Time{1, 6}))
	require.True(t, Time{-1, 5}.Before(Time{0, 0}))
	require.False(t, Time{1, 5}.Before(Time{1, 5}))
	require.True(t, Time{}.IsZero())
	require.False(t, MinTime.IsZero())
}

func TestInodeTimes(t *testing.T) {
	places := map[string][2]int{"atime": {0x08, 0x8c}, "ctime": {0x0c, 0x84}, "mtime": {0x10, 0x88}, "crtime": {0x90, 0x94}}
	for _, field := range inodeTimes {
		for _, test := range timeCases {
			n := Inode(make([]byte, 256))
			n.SetExtraIsize(32)
			want := append(Inode(nil), n...)
			at := Time{Sec: test.sec, Nsec: 987654321}
			field.set(n, at)
			require.Equal(t, at, field.get(n), field.name)
			le32(places[field.name][0]).put(want, test.lo)
			le32(places[field.name][1]).put(want, 987654321<<2|test.extra)
			require.Equal(t, want, n, field.name)
		}
	}
}

// Without the *_extra fields there are only seconds, and none after 2038.
func TestInodeTimesShort(t *testing.T) {
	tests := []struct{ sec, want int64 }{
		{math.MinInt32, math.MinInt32}, {-1, -1}, {0, 0}, {math.MaxInt32, math.MaxInt32},
		{math.MaxInt32 + 1, math.MaxInt32}, {3 << 32, math.MaxInt32}, {math.MinInt64, math.MinInt32},
	}
	for _, field := range inodeTimes[:3] {
		for _, test := range tests {
			n := Inode(make([]byte, 128))
			field.set(n, Time{Sec: test.sec, Nsec: 7})
			require.Equal(t, Time{Sec: test.want}, field.get(n), field.name)
		}
	}
	n := Inode(make([]byte, 128))
	n.SetCrtime(Time{Sec: 5})
	require.True(t, n.Crtime().IsZero())
	require.True(t, allZero(n))
}
