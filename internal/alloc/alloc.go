package alloc

import (
	"container/list"
	"sync"

	"drydock/format"
	"drydock/journal"
)

// Options says what an Allocator works on. The first four fields are needed.
type Options struct {
	Geometry  *format.Geometry
	Checksums format.Checksums
	Super     format.Superblock // read for the first inode that is not reserved
	Journal   *journal.Journal
	Memory    int64       // bytes of bitmaps kept while nothing in them is under way; 0: 16 MiB
	Warn      func(error) // told once of each group that is found bad; it may be called in a Tx and must not begin one; nil: nobody
}

// Allocator hands out blocks and inodes and takes them back. See the package
// comment for the states of a block and for the order of locks.
type Allocator struct {
	geo      format.Geometry
	sums     format.Checksums
	journal  *journal.Journal
	warn     func(error)
	firstIno format.Ino // not reserved
	lazy     bool       // the uninit flags have a meaning
	zone     zone

	space space

	mu       sync.Mutex // guards what follows
	groups   []groupState
	longest  maxTree // of each group, at least the longest run of blocks that are not busy
	inodes   maxTree // of each group, the inodes that can be had
	maps     map[format.Group]*blockMap
	idle     *list.List // of *blockMap: nothing in them is under way; the one used last in front
	maxMaps  int
	pendIno  map[format.Group]*pendingInodes
	windows  windowList
	claimed  map[format.Block]int // how many times Claim took a block that is freed, but not durably
	rotor    format.Group         // where the next directory below the root goes
	warnings []error              // to be told when mu is free
}

// groupState is what is known of a group without its bitmaps.
type groupState struct {
	free     uint32 // blocks that are not busy
	dirs     uint32
	inoHint  uint32 // no inode before this index can be had
	badBlock bool   // the block bitmap cannot be trusted
	badInode bool   // the inode bitmap cannot be trusted
}

// Run is n blocks from Start on.
type Run struct {
	Start format.Block
	N     uint32
}

const (
	defaultMemory = 16 << 20 // bytes of bitmaps
	minMaps       = 4        // bitmaps, however large
)

// New reads all descriptors, through the journal, and no bitmap. A group whose
// descriptor is damaged is not used: Warn is told, New does not fail. Errors:
// an *format.UnsupportedError for bigalloc, those of the device.
func New(o Options) (*Allocator, error) {
	a := &Allocator{
		geo: *o.Geometry, sums: o.Checksums, journal: o.Journal, warn: o.Warn,
		firstIno: firstIno(o.Super),
		lazy:     o.Checksums.Meta || o.Checksums.GDT,
		maps:     map[format.Group]*blockMap{},
		idle:     list.New(),
		pendIno:  map[format.Group]*pendingInodes{},
		claimed:  map[format.Block]int{},
	}
	if a.geo.Features.HasROCompat(format.ROCompatBigalloc) {
		return nil, &format.UnsupportedError{Features: format.Features{ROCompat: format.ROCompatBigalloc}, Detail: "for writing"}
	}
	memory := o.Memory
	if memory == 0 {
		memory = defaultMemory
	}
	a.maxMaps = max(minMaps, int(memory/int64(a.geo.BlockSize)))
	a.windows.init(a.maxMaps / 2)
	if err := a.readDescs(); err != nil {
		return nil, err
	}
	return a, nil
}

// goodOldFirstIno is the first inode that is not reserved in revision 0, and
// the least in later ones.
const goodOldFirstIno = 11

func firstIno(sb format.Superblock) format.Ino {
	if sb.RevLevel() == format.RevGoodOld {
		return goodOldFirstIno
	}
	return max(goodOldFirstIno, format.Ino(sb.FirstIno()))
}

// unlock gives up mu and then tells of what went wrong under it.
func (a *Allocator) unlock() {
	warnings := a.warnings
	a.warnings = nil
	a.mu.Unlock()
	if a.warn == nil {
		return
	}
	for _, w := range warnings {
		a.warn(w)
	}
}
