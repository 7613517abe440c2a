package journal

// ScanOptions says what Scan cannot read from the log.
type ScanOptions struct {
	Blocks    uint64 // of the file system: a tag beyond is damage; 0: no limit
	InodeSize int    // bytes, of inodes in fast commits
	External  bool   // the log is not on the file system's own device
}

// Scan reads the log and decides what a replay does; it writes nothing.
func Scan(a *Area, o ScanOptions) (*Recovery, error) { return nil, errStub }
