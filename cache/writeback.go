package cache

import "drydock/format"

// Writeback holds dirty runs on their way to the device.
type Writeback struct {
	Runs []Run // ascending, not touching
}

// Begin takes dirty runs in [from, to), of at most maxBytes in all (at least a block; 0: no limit):
// the blocks are no longer dirty but in writeback, until End. Without a dirty block
// Runs is empty, and End need not be called.
func (m *Mapping) Begin(from, to format.LBlock, maxBytes int64) *Writeback { return &Writeback{} }

// Bufs returns the content of a run, or of a part of one, for a vectored write. It does not
// change until End, whatever is written to the mapping.
func (w *Writeback) Bufs(r Run) [][]byte { return nil }

// End says that the blocks are on the device. With an error all of them, else those of
// redirty, become dirty again, but for what was written again or discarded meanwhile.
func (w *Writeback) End(err error, redirty ...Run) {}
