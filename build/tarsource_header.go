package build

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// Offsets in a tar header block, in bytes, and lengths of the fields there.
// Numbers are octal digits with blanks or zero bytes around them or, if the
// first bit is set, big-endian binary. Source: POSIX.1 pax, "ustar Interchange
// Format"; GNU tar manual, "Basic Tar Format".
const (
	tarBlock = 512

	thName     = 0
	thMode     = 100
	thUID      = 108
	thGID      = 116
	thSize     = 124
	thMtime    = 136
	thSum      = 148
	thType     = 156
	thLink     = 157
	thMagic    = 257
	thDevMajor = 329
	thDevMinor = 337
	thPrefix   = 345
	thStarEnd  = 508 // "tar\0" of star, whose prefix is shorter

	lenName       = 100
	lenID         = 8
	lenSize       = 12
	lenMtime      = 12
	lenSum        = 8
	lenMagic      = 8
	lenDev        = 8
	lenPrefix     = 155
	lenStarPrefix = 131
)

// What stands in the magic and version fields of POSIX and old GNU archives;
// older ones have neither.
const (
	magicUstar = "ustar\x00"
	magicGNU   = "ustar  \x00"
	endStar    = "tar\x00"
)

// Types of members: typeflag.
const (
	tarFile       = '0'
	tarFileV7     = 0
	tarHardLink   = '1'
	tarSymlink    = '2'
	tarChar       = '3'
	tarBlockDev   = '4'
	tarDir        = '5'
	tarFifo       = '6'
	tarContiguous = '7'
	tarPax        = 'x'
	tarPaxSun     = 'X'
	tarPaxGlobal  = 'g'
	tarLongName   = 'L'
	tarLongLink   = 'K'
	tarGNUSparse  = 'S'
	tarGNUDumpDir = 'D' // a directory whose data is a list of names
	tarGNUVolume  = 'V' // the label of the archive
)

var (
	errTarSum    = errors.New("no tar header: its checksum is wrong")
	errTarNumber = errors.New("no number")
)

// tarHeader is a view over one header block.
type tarHeader []byte

func (h tarHeader) field(off, n int) []byte { return h[off : off+n] }

// text returns a field up to its first zero byte.
func (h tarHeader) text(off, n int) string {
	b := h.field(off, n)
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b)
}

// number reads a field; name is for the error.
func (h tarHeader) number(name string, off, n int) (int64, error) {
	v, err := tarNumber(h.field(off, n))
	if err != nil {
		return 0, fmt.Errorf("field %s holds %q: %w", name, h.field(off, n), err)
	}
	return v, nil
}

func (h tarHeader) isGNU() bool { return string(h.field(thMagic, lenMagic)) == magicGNU }

func (h tarHeader) isUstar() bool { return string(h.field(thMagic, len(magicUstar))) == magicUstar }

// name joins name and prefix.
func (h tarHeader) name() string {
	name := h.text(thName, lenName)
	if !h.isUstar() {
		return name
	}
	n := lenPrefix
	if string(h.field(thStarEnd, len(endStar))) == endStar {
		n = lenStarPrefix
	}
	if prefix := h.text(thPrefix, n); prefix != "" {
		return prefix + "/" + name
	}
	return name
}

// check makes sure that this is a header. Some old programs summed up the
// bytes as signed ones.
func (h tarHeader) check() error {
	want, err := tarNumber(h.field(thSum, lenSum))
	if err != nil {
		return errTarSum
	}
	var unsigned, signed int64
	for i, b := range h[:tarBlock] {
		if i >= thSum && i < thSum+lenSum {
			b = ' '
		}
		unsigned += int64(b)
		signed += int64(int8(b))
	}
	if want != unsigned && want != signed {
		return errTarSum
	}
	return nil
}

// hasDevice reports whether there are fields for a device's number.
func (h tarHeader) hasDevice() bool { return h.isGNU() || h.isUstar() }

// tarNumber reads a number of either form.
func tarNumber(b []byte) (int64, error) {
	if len(b) > 0 && b[0]&0x80 != 0 {
		return tarBinary(b)
	}
	b = bytes.Trim(b, " \x00")
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	var v int64
	for _, c := range b {
		if c < '0' || c > '7' || v > math.MaxInt64>>3 {
			return 0, errTarNumber
		}
		v = v<<3 | int64(c-'0')
	}
	return v, nil
}

// tarBinary reads a big-endian two's complement number of which the first bit
// is a mark and the second the sign.
func tarBinary(b []byte) (int64, error) {
	v := int64(b[0]&0x7F) << 57 >> 57
	for _, c := range b[1:] {
		if v > math.MaxInt64>>8 || v < math.MinInt64>>8 {
			return 0, errTarNumber
		}
		v = v<<8 | int64(c)
	}
	return v, nil
}
