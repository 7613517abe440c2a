package mkfs

import (
	"fmt"
	"strconv"
)

// commas writes n with a comma at each thousand.
func commas(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// roundedSize writes a size as --size takes it, rounded up to three or four
// digits, so that it is never less than n.
func roundedSize(n uint64) string {
	unit := 0
	for n >= 10_000 && unit < len(sizeUnits)-1 {
		n = n/1024 + min(1, n%1024)
		unit++
	}
	return fmt.Sprintf("%d%s", n, sizeUnits[unit])
}

var sizeUnits = []string{"", "K", "M", "G", "T"}
