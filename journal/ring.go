package journal

import (
	"fmt"
	"sync"

	"drydock/format"
)

// ring is the log: log blocks first to end-1, used round and round.
//
//	     tail            head
//	------[ T5 ][T6][ T7 ]--------     T5..T7 are committed, in list
//	                      ^ the next transaction begins here
//
// The journal superblock on the disk says where T5 begins, or any transaction
// before it; or that there is nothing in the log.
type ring struct {
	area       *Area
	f          format.JournalFormat
	first, end uint32
	most       uint32 // blocks of a transaction, a quarter of the log
	uuid       [16]byte

	// Guarded by Journal.mu.
	head uint32
	free uint32         // blocks; one is never used, so that head is not tail
	list []*transaction // oldest first

	inLog logged

	superMu  sync.Mutex
	super    format.JournalSuperblock // as it is on the disk
	sequence format.Tid               // that it had at Open

	// Used by who is busy.
	empty     bool // on the disk
	sec       uint64
	nsec      uint32 // of the last commit
	scratch   [][]byte
	scratched int
	layout    [][]byte
}

// smallestTx is the fewest blocks that a transaction must be able to have.
const smallestTx = 4

// openLog reads the journal superblock and prepares what the first commit will
// put there.
func (j *Journal) openLog() error {
	area := j.o.Area
	super, err := area.ReadSuperblock()
	if err != nil {
		return err
	}
	if super.Start() != 0 {
		return fmt.Errorf("%w: there are transactions from log block %d on", ErrNotRecovered, super.Start())
	}
	if j.o.Blocks > 1<<32 && !j.o.Wide && !super.Has(format.JournalIncompat64Bit) {
		return &format.UnsupportedError{Detail: fmt.Sprintf("%d blocks with a journal of 32-bit block numbers", j.o.Blocks)}
	}
	l := &ring{area: area, super: super, uuid: super.UUID(), sequence: super.Sequence(), empty: true}
	l.f = features(super, j.o).Format()
	l.first, l.end = super.First(), super.MaxLen()
	l.head, l.free = l.first, l.end-l.first-1
	l.most = (l.end - l.first) / 4
	l.inLog.tids = map[format.Block]format.Tid{}
	j.maxTx = min(j.maxTx, l.mostVersions())
	if j.maxTx < smallestTx {
		return &format.UnsupportedError{Detail: fmt.Sprintf("log of %d blocks", l.end-l.first)}
	}
	j.log = l
	j.running.tid = super.Sequence() + 1 // as jbd2: what may lie in the log is older
	return nil
}

// need is the number of log blocks of a transaction: revoke blocks, descriptors,
// copies and a commit block.
func (l *ring) need(versions, revokes int) uint32 {
	return uint32(l.revokeBlocks(revokes) + ceilDiv(versions, l.f.TagsPerDescriptor()) + versions + 1)
}

func (l *ring) revokeBlocks(revokes int) int { return ceilDiv(revokes, l.f.RevokesPerBlock()) }

func ceilDiv(n, d int) int { return (n + d - 1) / d }

// mostVersions is how many blocks a transaction can have, and one block of revokes.
func (l *ring) mostVersions() int {
	n := int(l.most)
	for n > 0 && l.need(n, 1) > l.most {
		n--
	}
	return n
}

// fits reports whether a transaction can have that many blocks and revokes.
func (j *Journal) fits(versions, revokes int) bool {
	return versions <= j.maxTx && (j.log == nil || j.log.need(versions, revokes) <= j.log.most)
}

// revokeBlocks is how many blocks n revokes take.
func (j *Journal) revokeBlocks(n int) int {
	if j.log == nil {
		return 0
	}
	return j.log.revokeBlocks(n)
}

// after is the log block n blocks behind at.
func (l *ring) after(at, n uint32) uint32 {
	at += n
	if at >= l.end {
		at -= l.end - l.first
	}
	return at
}

// append takes in a transaction whose commit is durable. The caller holds Journal.mu.
func (l *ring) append(t *transaction) {
	l.head = l.after(t.start, t.n)
	l.free -= t.n
	l.list = append(l.list, t)
}

// release frees the space of the k oldest transactions. The caller holds Journal.mu.
func (l *ring) release(k int) {
	for _, t := range l.list[:k] {
		l.free += t.n
	}
	n := copy(l.list, l.list[k:])
	clear(l.list[n:])
	l.list = l.list[:n]
}

// write writes bufs, a block each, from log block at on, around the end.
func (l *ring) write(at uint32, bufs [][]byte) error {
	if room := int(l.end - at); len(bufs) > room {
		if err := l.area.WriteBlocks(at, bufs[:room]); err != nil {
			return err
		}
		at, bufs = l.first, bufs[room:]
	}
	if len(bufs) == 0 {
		return nil
	}
	return l.area.WriteBlocks(at, bufs)
}

// logged knows which home blocks have a copy in the log, committed or on its way,
// and the youngest transaction that has one.
type logged struct {
	mu   sync.Mutex
	tids map[format.Block]format.Tid
}

// loggedStep is for how many blocks the lock is held, so that nobody waits long.
const loggedStep = 256

// add notes the blocks of transaction tid.
func (l *logged) add(tid format.Tid, blocks []format.Block) {
	l.each(blocks, func(b format.Block) { l.tids[b] = tid })
}

// remove forgets the blocks of tid, but for those that a younger transaction has
// too.
func (l *logged) remove(tid format.Tid, blocks []format.Block) {
	l.each(blocks, func(b format.Block) {
		if l.tids[b] == tid {
			delete(l.tids, b)
		}
	})
}

func (l *logged) each(blocks []format.Block, fn func(format.Block)) {
	for len(blocks) > 0 {
		n := min(len(blocks), loggedStep)
		l.mu.Lock()
		for _, b := range blocks[:n] {
			fn(b)
		}
		l.mu.Unlock()
		blocks = blocks[n:]
	}
}

func (l *logged) has(b format.Block) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.tids[b]
	return ok
}

// inLog reports whether a replay might write b.
func (j *Journal) inLog(b format.Block) bool { return j.log != nil && j.log.inLog.has(b) }
