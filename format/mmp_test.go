package format

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMMPFields(t *testing.T) {
	checkFields(t, MMPSize, func(m MMP) {}, `
		Seq           004:4
		Time          008:8
		NodeName      010:40
		BdevName      050:20
		CheckInterval 070:2
	`)
	require.Equal(t, uint32(0x01020304), MMP(append(make([]byte, 0x3FC), 4, 3, 2, 1)).Checksum())
}

func TestCheckMMP(t *testing.T) {
	b := make([]byte, 4096)
	PutMMP(b, 5)
	require.NoError(t, CheckMMP(b, 9))
	require.True(t, MMP(b).Clean())
	require.EqualValues(t, 5, MMP(b).CheckInterval())
	for _, seq := range []uint32{1, MMPSeqMax, MMPSeqFsck} {
		MMP(b).SetSeq(seq)
		require.NoError(t, CheckMMP(b, 9))
		require.False(t, MMP(b).Clean())
	}
	MMP(b).SetSeq(MMPSeqFsck + 1)
	require.EqualError(t, CheckMMP(b, 9), "MMP in block 9 at 0x4: sequence 0xe24d4d51, want at most 0xe24d4d4f")
	b[0]++
	require.EqualError(t, CheckMMP(b, 9), "MMP in block 9 at 0x0: magic 0x4d4d51, want 0x4d4d50")
	require.EqualError(t, CheckMMP(b[:1023], 9), "MMP in block 9 at 0x0: 1023 bytes, want 1024")
}

func FuzzMMP(f *testing.F) {
	b := make([]byte, MMPSize)
	PutMMP(b, 5)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if CheckMMP(b, 1) != nil {
			return
		}
		m := MMP(b)
		require.LessOrEqual(t, len(m.NodeName()), 64)
		require.LessOrEqual(t, len(m.BdevName()), 32)
		Checksums{Meta: true}.SealMMP(b)
		require.True(t, Checksums{Meta: true}.VerifyMMP(b))
	})
}
