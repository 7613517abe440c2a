package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Amount is a flag value that is a size in bytes or a share of something: "64M", "20%".
type Amount struct {
	Bytes   int64
	Percent float64 // only when Share
	Share   bool    // the amount is Percent of something; Bytes is 0
}

// String returns the amount in the form that Set reads.
func (a *Amount) String() string {
	if a.Share {
		return strconv.FormatFloat(a.Percent, 'g', -1, 64) + "%"
	}
	return FormatSize(a.Bytes)
}

// Set parses a size, or a number with a percent sign; a percentage is neither
// negative nor over 1000.
func (a *Amount) Set(text string) error {
	number, share := strings.CutSuffix(strings.TrimSpace(text), "%")
	if !share {
		bytes, err := ParseSize(number)
		*a = Amount{Bytes: bytes}
		return err
	}
	percent, err := strconv.ParseFloat(number, 64)
	if err != nil || !isDecimal(number) || percent > 1000 {
		return fmt.Errorf("%q is not a percentage from 0%% to 1000%%", text)
	}
	*a = Amount{Percent: percent, Share: true}
	return nil
}

// Type names the value in a usage text.
func (a *Amount) Type() string { return "SIZE|PERCENT" }

// Of returns the amount in units of total: the bytes themselves, or the share
// of total, rounded up.
func (a Amount) Of(total int64) int64 {
	if !a.Share {
		return a.Bytes
	}
	share := math.Ceil(float64(total) * a.Percent / 100)
	if share >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(share)
}
