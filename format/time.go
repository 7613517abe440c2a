package format

import (
	"math"
	"time"
)

// Time is a point in time as ext4 keeps it: seconds since 1970-01-01T00:00:00Z,
// negative before it, and nanoseconds, 0 to 999,999,999, that are added to them.
// The zero Time is 1970-01-01T00:00:00Z.
type Time struct {
	Sec  int64
	Nsec uint32
}

// The range of times that an inode with the *_extra fields can hold.
var (
	MinTime    = Time{Sec: math.MinInt32}                        // 1901-12-13T20:45:52Z
	MaxTime    = Time{Sec: 3<<32 + math.MaxInt32, Nsec: maxNsec} // 2446-05-10T22:38:55.999999999Z
	maxTime128 = Time{Sec: math.MaxInt32, Nsec: maxNsec}         // 2038-01-19T03:14:07.999999999Z
)

const (
	maxNsec   = 999_999_999
	epochBits = 2 // low bits of *_extra: multiples of 2^32 seconds to add; the rest are nanoseconds
	epochMask = 1<<epochBits - 1
)

// TimeOf is t as ext4 keeps it. It is not clamped to what an inode can hold.
func TimeOf(t time.Time) Time { return Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())} }

// Time is t in UTC.
func (t Time) Time() time.Time { return time.Unix(t.Sec, int64(t.Nsec)).UTC() }

// IsZero reports whether t is 1970-01-01T00:00:00Z, which is also what a field
// that an inode does not have reads as.
func (t Time) IsZero() bool { return t == Time{} }

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool {
	return t.Sec < u.Sec || t.Sec == u.Sec && t.Nsec < u.Nsec
}

// Clamp is t, or the nearest of MinTime and MaxTime when it lies outside.
func (t Time) Clamp() Time { return t.clampTo(MaxTime) }

// clampTo is t, or the nearest of MinTime and last when it lies outside.
func (t Time) clampTo(last Time) Time {
	if t.Before(MinTime) {
		return MinTime
	}
	if last.Before(t) {
		return last
	}
	return t
}

// EncodeTime splits t, clamped, into the low word, which is signed, and the
// *_extra word: the multiple of 2^32 seconds to add in bits 0-1, nanoseconds in
// bits 2-31. Source: kernel doc: ext4/inodes.rst, Inode Timestamps.
func EncodeTime(t Time) (lo, extra uint32) {
	t = t.Clamp()
	lo = uint32(t.Sec)
	epoch := uint32((t.Sec-int64(int32(lo)))>>32) & epochMask
	return lo, min(t.Nsec, maxNsec)<<epochBits | epoch
}

// DecodeTime is the inverse of EncodeTime. Nanoseconds of a second or more,
// which only damage leaves, come out as 999,999,999.
func DecodeTime(lo, extra uint32) Time {
	epoch := int64(extra&epochMask) << 32
	return Time{Sec: int64(int32(lo)) + epoch, Nsec: min(extra>>epochBits, maxNsec)}
}
