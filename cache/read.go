package cache

// ReadAt reads len(p) bytes at off, which must lie inside the caller's end of file.
func (m *Mapping) ReadAt(p []byte, off int64) error { return errStub }
