package cache

// Stats counts what a Mapping, or all mappings of a Budget, did.
type Stats struct {
	Hits        uint64 // reads and writes of a folio that found what they needed in memory
	Misses      uint64 // ... that had to read from the device
	UserBytes   uint64 // bytes taken by writes
	DeviceBytes uint64 // bytes given to writeback
	FillBytes   uint64 // bytes read from the device
	Copies      uint64 // folios copied because a writer met them in writeback
	Waits       uint64 // times a writer waited for memory
	Punts       uint64 // times TryWriteAt gave up
	Evictions   uint64 // folios given up to make room
}

// Amplification returns the bytes given to writeback for each byte written by the user.
func (s Stats) Amplification() float64 { return float64(s.DeviceBytes) / float64(max(s.UserBytes, 1)) }
