package cli

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/docker/go-units"
)

// unitLetters are the unit letters of a size in rising order; each is 1024 times the one before.
const unitLetters = "KMGTPE"

// Size is a number of bytes that is a flag value: "4096", "512M", "1.5G", "2GiB".
type Size int64

// String returns the size in the largest unit that holds it exactly.
func (s *Size) String() string { return FormatSize(int64(*s)) }

// Set parses text as ParseSize does.
func (s *Size) Set(text string) error {
	n, err := ParseSize(text)
	if err == nil {
		*s = Size(n)
	}
	return err
}

// Type names the value in a usage text.
func (s *Size) Type() string { return "SIZE" }

// ParseSize reads a number of bytes: digits, perhaps a fraction, perhaps a unit
// K, M, G, T, P or E (powers of 1024, either case), perhaps "B" or "iB" after
// it. A fraction of a byte is cut off.
func ParseSize(text string) (int64, error) {
	digits, unit := splitUnit(strings.TrimSpace(text))
	factor, ok := unitFactor(unit)
	if !ok || !isDecimal(digits) {
		return 0, fmt.Errorf("%q is not a size; sizes look like 4096, 512M or 1.5G", text)
	}
	value, _ := new(big.Rat).SetString(digits)
	value.Mul(value, new(big.Rat).SetInt64(factor))
	bytes := new(big.Int).Quo(value.Num(), value.Denom())
	if !bytes.IsInt64() {
		return 0, fmt.Errorf("size %q is over the limit of %d bytes", text, int64(math.MaxInt64))
	}
	return bytes.Int64(), nil
}

// splitUnit cuts text where its leading digits and points end.
func splitUnit(text string) (digits, unit string) {
	end := len(text) - len(strings.TrimLeft(text, "0123456789."))
	return text[:end], text[end:]
}

// isDecimal tells whether text is digits with at most one point among them.
func isDecimal(text string) bool {
	whole, fraction, point := strings.Cut(text, ".")
	return len(text) <= 64 && isDigits(whole) && (!point || isDigits(fraction))
}

// isDigits tells whether text is one digit or more, and nothing else.
func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// unitFactor returns the bytes of a unit such as "", "B", "k", "MB" or "GiB".
func unitFactor(unit string) (int64, bool) {
	unit = strings.ToUpper(unit)
	if unit == "" || unit == "B" {
		return 1, true
	}
	power := strings.IndexByte(unitLetters, unit[0])
	rest := unit[1:]
	if power < 0 || rest != "" && rest != "B" && rest != "IB" {
		return 0, false
	}
	return 1 << (10 * (power + 1)), true
}

// FormatSize returns n bytes in the largest unit that holds them exactly, in
// the form that ParseSize reads: 331M, 12K, 4097.
func FormatSize(n int64) string {
	unit := ""
	for i := 0; i < len(unitLetters) && n != 0 && n%1024 == 0; i++ {
		n /= 1024
		unit = unitLetters[i : i+1]
	}
	return strconv.FormatInt(n, 10) + unit
}

// HumanSize returns n bytes rounded to four digits: 245.3MiB.
func HumanSize(n int64) string { return units.BytesSize(float64(n)) }

// FormatCount returns n with a comma before every three digits: 81,204.
func FormatCount[N int | int32 | int64 | uint32 | uint64](n N) string {
	text := fmt.Sprint(n)
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}
