package journal

import (
	"cmp"
	"slices"
	"sync"

	"drydock/device"
)

// maxHomeWrite bounds a single write to the home device, in bytes.
const maxHomeWrite = 4 << 20

// writeHome writes versions to their places: in ascending order, neighbours in
// one operation. They must not go away meanwhile.
func (j *Journal) writeHome(versions []*Version) error {
	sorted := slices.Clone(versions)
	slices.SortFunc(sorted, byBlock)
	for len(sorted) > 0 {
		run := j.leadingRun(sorted)
		if err := j.writeRun(sorted[:run]); err != nil {
			return err
		}
		sorted = sorted[run:]
	}
	return nil
}

func byBlock(a, b *Version) int { return cmp.Compare(a.block, b.block) }

// leadingRun is how many of the first versions are neighbours at home.
func (j *Journal) leadingRun(sorted []*Version) int {
	most := min(len(sorted), maxHomeWrite/j.o.BlockSize)
	n := 1
	for n < most && sorted[n].block == sorted[n-1].block+1 {
		n++
	}
	return n
}

// writeRun writes neighbours.
func (j *Journal) writeRun(run []*Version) error {
	bufs := make([][]byte, len(run))
	for i, v := range run {
		bufs[i] = v.data
	}
	_, err := device.Writev(j.o.Device, bufs, int64(run[0].block)*int64(j.o.BlockSize))
	return err
}

// homeWrite says whether a checkpoint is writing home blocks, and how often it
// has begun to. Guarded by Journal.mu.
type homeWrite struct {
	busy bool
	n    uint64
}

// wait returns when the write that is under way has ended.
func (h *homeWrite) wait(cond *sync.Cond) {
	for n := h.n; h.busy && h.n == n; {
		cond.Wait()
	}
}
