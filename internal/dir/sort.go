package dir

import (
	"cmp"
	"slices"
)

// Keys are parted by the high bits of their hash before they are compared: names
// spread evenly over the hashes, and few comparisons are left.
const (
	bucketBits = 11
	buckets    = 1 << bucketBits
)

func (k key) bucket() int { return int(k.order >> (64 - bucketBits)) }

// sortKeys sorts by hash, minor hash and index, in place.
func sortKeys(keys []key) {
	var ends [buckets]uint32
	for _, k := range keys {
		ends[k.bucket()]++
	}
	sum := uint32(0)
	for i := range ends {
		sum += ends[i]
		ends[i] = sum
	}
	partKeys(keys, ends)
	start := uint32(0)
	for _, end := range ends {
		slices.SortFunc(keys[start:end], compareKeys)
		start = end
	}
}

// partKeys moves every key into its bucket. ends are where the buckets end;
// each bucket is filled from there downwards.
func partKeys(keys []key, ends [buckets]uint32) {
	fill := ends
	start := uint32(0)
	for i, end := range ends {
		for fill[i] > start {
			k := keys[fill[i]-1]
			for k.bucket() != i {
				to := &fill[k.bucket()]
				*to--
				k, keys[*to] = keys[*to], k
			}
			fill[i]--
			keys[fill[i]] = k
		}
		start = end
	}
}

func compareKeys(a, b key) int {
	if a.order != b.order {
		return cmp.Compare(a.order, b.order)
	}
	return cmp.Compare(a.index, b.index)
}
