package journal

import (
	"fmt"
	"sync/atomic"

	"drydock/format"
)

// entry is what is known of one home block. It is in the map while there is
// something to know.
type entry struct {
	block format.Block
	// cur is the version that readers see; nil if that is what is at home, or
	// the block was freed. If cur waits in no transaction, it is in the clean list.
	cur *Version
	// old are the versions before cur that are not obsolete: one that is being
	// committed, and the newest committed one that is not home. Newest first.
	old *Version

	pinned     bool // cur differs from home and must not be dropped
	used       atomic.Bool
	prev, next *entry // in the clean list
}

// Get returns the current version of a block. It may be called, and the version
// used, inside a View or while the caller has a Tx. A block outside the file
// system is damage; other errors are the device's.
func (j *Journal) Get(b format.Block) (*Version, error) {
	if v := j.lookup(b); v != nil {
		return v, nil
	}
	return j.load(b)
}

// lookup returns the current version if it is in memory.
func (j *Journal) lookup(b format.Block) *Version {
	j.mu.RLock()
	defer j.mu.RUnlock()
	e := j.entries[b]
	if e == nil || e.cur == nil {
		return nil
	}
	if !e.used.Load() {
		e.used.Store(true)
	}
	return e.cur
}

// load reads a block from home. No merge can happen meanwhile, since the
// caller is in a View or has the Tx, so the block does not change.
func (j *Journal) load(b format.Block) (*Version, error) {
	v := j.pool.get(b)
	if err := j.readHome(b, v.data); err != nil {
		j.pool.put(v)
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entryOf(b)
	if e.cur != nil { // another reader was faster
		j.pool.put(v)
		return e.cur, nil
	}
	e.cur = v
	j.addClean(e)
	return v, nil
}

// checkBlock makes sure that b lies in the file system.
func (j *Journal) checkBlock(b format.Block, n uint64) error {
	if uint64(b) < j.o.Blocks && n <= j.o.Blocks-uint64(b) {
		return nil
	}
	detail := fmt.Sprintf("outside the file system of %d blocks", j.o.Blocks)
	return &format.DamagedError{Structure: "block number", Block: b, Offset: -1, Detail: detail}
}

// readHome reads one block from its home, or what a recovery would write there.
func (j *Journal) readHome(b format.Block, p []byte) error {
	if err := j.checkBlock(b, 1); err != nil {
		return err
	}
	if j.o.Overlay != nil {
		if ok, err := j.o.Overlay(b, p); ok || err != nil {
			return err
		}
	}
	return readFull(j.o.Device, p, int64(b)*int64(j.o.BlockSize))
}

// entryOf returns the entry of b, a new one if there is none. The caller holds mu.
func (j *Journal) entryOf(b format.Block) *entry {
	e := j.entries[b]
	if e == nil {
		e = &entry{block: b}
		j.entries[b] = e
	}
	return e
}

// dropIfBare forgets an entry that says nothing. The caller holds mu.
func (j *Journal) dropIfBare(e *entry) {
	if e.cur == nil && e.old == nil {
		delete(j.entries, e.block)
	}
}

// addClean puts an entry whose current version is the same at home into the
// clean list, and evicts others if there are too many. The caller holds mu.
func (j *Journal) addClean(e *entry) {
	if e.pinned {
		return
	}
	j.clean.push(e)
	for j.clean.n > j.clean.limit {
		victim := j.clean.victim()
		// A reader may still use the version, so it does not go to the pool.
		victim.cur = nil
		j.dropIfBare(victim)
	}
}

// takeClean ends the use of a current version that is the same at home, or is
// pinned. The caller holds mu, and mergeMu or knows that there is no reader.
func (j *Journal) takeClean(e *entry) {
	if !e.pinned {
		j.clean.remove(e)
	}
	e.pinned = false
	j.pool.put(e.cur)
	e.cur = nil
}

// cleanList has the entries that can be dropped, in the order in which they
// came, which is second chance: one that was used meanwhile goes to the end.
type cleanList struct {
	first, last *entry
	n, limit    int
}

func (l *cleanList) push(e *entry) {
	e.prev, e.next = l.last, nil
	if l.last != nil {
		l.last.next = e
	} else {
		l.first = e
	}
	l.last = e
	l.n++
}

func (l *cleanList) remove(e *entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		l.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		l.last = e.prev
	}
	e.prev, e.next = nil, nil
	l.n--
}

// victim takes out the entry to be dropped next.
func (l *cleanList) victim() *entry {
	for e := l.first; ; e = l.first {
		l.remove(e)
		if !e.used.Swap(false) {
			return e
		}
		l.push(e)
	}
}
