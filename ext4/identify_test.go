package ext4

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
)

func TestIdentify(t *testing.T) {
	at := func(off int, s string) []byte { return append(make([]byte, off), s...) }
	mbr := at(446, "\x80\x00\x00\x00\x83\x00\x00\x00\x00\x08\x00\x00\x00\x00\x01\x00")
	mbr = append(mbr, make([]byte, 512-len(mbr))...)
	copy(mbr[510:], "\x55\xaa")
	gpt := append(bytes.Clone(mbr), "EFI PART"...)
	fat := bytes.Clone(mbr)
	copy(fat[82:], "FAT32   ")
	for _, c := range []struct {
		data []byte
		want string
	}{
		{nil, "empty"},
		{make([]byte, 100), "empty"},
		{make([]byte, 1<<20), "empty"},
		{[]byte("some text"), "unknown data"},
		{at(0, "\x1f\x8b\x08"), "gzip-compressed data"},
		{at(0, "XFSB"), "xfs file system"},
		{at(65600, "_BHRfS_M"), "btrfs file system"},
		{at(0, "hsqs"), "squashfs file system"},
		{at(1024, "\xe2\xe1\xf5\xe0"), "erofs file system"},
		{at(0, "QFI\xfb"), "qcow2 disk image"},
		{at(0, "KDMV"), "VMDK disk image"},
		{at(0, "\x3a\xff\x26\xed"), "Android sparse image"},
		{at(0, "LUKS\xba\xbe\x00\x02"), "LUKS encrypted volume"},
		{at(4086, "SWAPSPACE2"), "swap space"},
		{at(65526, "SWAPSPACE2"), "swap space"},
		{at(3, "NTFS    "), "NTFS file system"},
		{at(32769, "CD001"), "ISO 9660 file system"},
		{mbr, "disk image with an MBR partition table"},
		{gpt, "disk image with a GPT partition table"},
		{fat, "FAT file system"},
		{at(1024+0x38, "\x53\xef"+string(make([]byte, 0x60-0x38+2))), "ext2/3/4 file system"},
		{at(1024+0x38, "\x53\xef"+string(make([]byte, 0x60-0x3a))+"\x08\x00\x00\x00"), "external journal device of an ext3/4 file system"},
	} {
		require.Equal(t, c.want, Identify(bytes.NewReader(c.data)))
	}
}

// TestIdentifyMarks finds each mark where it lies, and not past the end.
func TestIdentifyMarks(t *testing.T) {
	for _, m := range marks {
		data := make([]byte, m.off+len(m.bytes))
		copy(data[m.off:], m.bytes)
		require.Equal(t, m.kind, Identify(bytes.NewReader(data)))
		require.LessOrEqual(t, len(data), identifySpan)
		require.NotEqual(t, m.kind, Identify(bytes.NewReader(data[:len(data)-1])))
	}
}

// brokenReader can be read up to a point only.
type brokenReader struct{ data []byte }

func (r brokenReader) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > int64(len(r.data)) {
		return 0, errors.New("broken")
	}
	return copy(p, r.data[off:]), nil
}

func TestIdentifyBroken(t *testing.T) {
	require.Equal(t, "xfs file system", Identify(brokenReader{append([]byte("XFSB"), make([]byte, 600)...)}))
	require.Equal(t, "empty", Identify(brokenReader{}))
}

// TestOpenOther names what is on a device that holds no ext4.
func TestOpenOther(t *testing.T) {
	for _, size := range []int{0, 4, 2047, 4096} {
		data := make([]byte, size)
		copy(data, "XFSB")
		var not *NotExt4Error
		_, err := Open(memDev(t, data), Options{})
		require.ErrorAs(t, err, &not)
		if size > 0 {
			require.Equal(t, "xfs file system", not.Found)
		}
	}
}

// failingDev fails to read the superblock.
type failingDev struct{ *device.Mem }

func (failingDev) ReadAt([]byte, int64) (int, error) { return 0, io.ErrNoProgress }

func TestOpenIOError(t *testing.T) {
	_, err := Open(failingDev{device.NewMem(1 << 20)}, Options{})
	require.ErrorIs(t, err, io.ErrNoProgress)
}

func FuzzIdentify(f *testing.F) {
	f.Add([]byte("XFSB"), uint16(0))
	f.Add([]byte("\x53\xef"), uint16(0x438))
	f.Fuzz(func(t *testing.T, b []byte, off uint16) {
		data := make([]byte, int(off)+len(b))
		copy(data[off:], b)
		require.NotEmpty(t, Identify(bytes.NewReader(data)))
	})
}
