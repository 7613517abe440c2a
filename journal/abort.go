package journal

import "fmt"

// errIO is what s_errno says after an abort: -EIO.
const errIO = -5

// Err is why the journal has aborted, an error that is ErrAborted; nil if it has
// not.
func (j *Journal) Err() error {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.err
}

// Abort stops all writing for good, as an I/O error does: for a caller who has
// found damage. s_errno is set in the journal superblock.
func (j *Journal) Abort(err error) { j.abort(err) }

// abort records the first error, here, in the log and with the file system, and
// then lets go all who wait. It returns that error. The caller holds no lock
// but, perhaps, ckptMu.
func (j *Journal) abort(cause error) error {
	if !j.setErr(cause) {
		return j.Err()
	}
	if j.log != nil {
		j.log.recordErrno(errIO, !j.o.NoFlush) // if that fails too, there is nobody left to tell
	}
	if j.o.OnAbort != nil {
		j.o.OnAbort(j.Err())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cond.Broadcast()
	return j.err
}

// setErr notes why the journal aborts; it is false if it already has.
func (j *Journal) setErr(cause error) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return false
	}
	j.err = fmt.Errorf("%w: %w", ErrAborted, cause)
	return true
}
