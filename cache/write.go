package cache

// WriteAt writes p at off. It waits while the budget is used up. On an error n bytes were taken.
func (m *Mapping) WriteAt(p []byte, off int64) (n int, err error) { return 0, errStub }

// TryWriteAt writes as much of p as it can without waiting: n < len(p) comes with
// ErrWouldWait or another error.
func (m *Mapping) TryWriteAt(p []byte, off int64) (n int, err error) { return 0, errStub }

// Zero makes the n bytes at off zeros; blocks that are neither present nor mapped
// are zeros as it is and stay as they are.
func (m *Mapping) Zero(off, n int64) error { return errStub }
