package journal

import (
	"errors"
	"slices"

	"drydock/device"
	"drydock/format"
)

// replayRun is how much Replay writes at once, in bytes.
const replayRun = 1 << 20

// errNotReplayed keeps a log whose blocks are not home.
var errNotReplayed = errors.New("journal: the log has not been replayed")

// Replay writes all blocks of Blocks home, in ascending order, and flushes. It
// changes no byte of the log, so that it can be cut off anywhere and done again.
// With Damage it does what e2fsck does; whoever holds with Linux does not call it.
func (r *Recovery) Replay(home device.Device) error {
	buf := make([]byte, min(replayRun/r.f.BlockSize, len(r.copies))*r.f.BlockSize)
	for rest := r.copies; len(rest) > 0; {
		n, err := r.fillRun(rest, buf)
		if err != nil {
			return err
		}
		if _, err := home.WriteAt(buf[:n*r.f.BlockSize], int64(rest[0].home)*int64(r.f.BlockSize)); err != nil {
			return err
		}
		rest = rest[n:]
	}
	if err := home.Flush(); err != nil {
		return err
	}
	r.replayed = true
	return nil
}

// fillRun reads the first copies, as many as lie side by side at home and fit
// into buf.
func (r *Recovery) fillRun(copies []logCopy, buf []byte) (n int, err error) {
	for n < len(copies) && (n+1)*r.f.BlockSize <= len(buf) && copies[n].home == copies[0].home+format.Block(n) {
		if err := r.read(copies[n], buf[n*r.f.BlockSize:(n+1)*r.f.BlockSize]); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Finish empties the log: the journal superblock gets s_start 0, NextTid in
// s_sequence and Errno in s_errno, with FUA. It fails unless Replay has succeeded.
// What the caller makes of fast commits has to be durable before, too. On a log
// that is clean it writes no more than a changed Errno.
func (r *Recovery) Finish() error {
	if r.Dirty && !r.replayed {
		return errNotReplayed
	}
	return r.Discard()
}

// Discard is Finish without a replay: what is in the log is given up, as where
// the file system does not say needs_recovery.
func (r *Recovery) Discard() error {
	s := slices.Clone(r.Super)
	if r.Dirty {
		s.SetStart(0)
		s.SetSequence(r.NextTid())
	}
	s.SetErrno(r.Errno)
	if slices.Equal(s, r.Super) {
		return nil
	}
	if err := r.area.WriteSuperblock(s); err != nil {
		return err
	}
	r.Super, r.Dirty = s, false
	return nil
}
