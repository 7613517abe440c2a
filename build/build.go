package build

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"drydock/device"
	"drydock/format"
	"drydock/internal/mkfs"
)

// Options says what image to make. The zero value, with Out, makes the
// smallest empty file system of the default profile.
type Options struct {
	Out   string // image file or block device
	Force bool   // replace what is there

	From   []string  // directory, tar files or "-" for Stdin; several tars are layers
	Stdin  io.Reader // nil: os.Stdin
	Source Source    // in place of From

	Size        int64   // of the file system in bytes; 0: all of a device or partition, else the smallest
	Smallest    bool    // the smallest on a device, too
	FreeBytes   int64   // to stay free
	FreePercent float64 // of the file system to stay free
	FreeInodes  uint64  // to stay free
	Inodes      uint64  // in all; 0: as needed
	BlockSize   int     // bytes; 0: 4096
	InodeSize   int     // bytes; 0: 256
	Journal     int64   // bytes; 0: usual size
	NoJournal   bool
	Reserved    float64 // percent of the blocks kept for root

	Profile  string // mkfs.Profiles; "": default
	Features string // changes to it: "+x,-y"
	Label    string
	UUID     *[16]byte // nil: random, or derived when Reproducible
	HashSeed *[16]byte // nil: as UUID
	Epoch    *int64    // seconds: the time of the file system; later times of files become it

	// Reproducible derives from the content what is not given: UUID, hash seed
	// and time. Same content and options, same bytes.
	Reproducible bool

	Owner          string   // U:G for everything
	MapOwner       []string // see OwnerMap
	Xattrs         string   // see XattrFilter
	Exclude        []string // see Exclude
	Holes          HoleMode
	Whiteouts      Whiteouts
	SkipUnreadable bool

	Partition PartitionKind
	Offset    int64 // bytes of Out in front of the file system

	Workers int  // goroutines; 0: one a CPU
	Verify  bool // read the image back and compare it with the source
	Sync    bool // durable on return
	DryRun  bool // plan only

	Progress func(Progress) // called now and then from one goroutine at a time

	wrap func(device.Device) device.Device // between builder and target, for tests
}

// Progress is how far a build has come.
type Progress struct {
	Phase             string // "scan", "copy", "write", "verify"
	Bytes, TotalBytes int64
	Files, TotalFiles int64
}

// Result is what was made, or would be on a dry run. The JSON names are a
// contract.
type Result struct {
	Out       string        `json:"out"`
	Offset    int64         `json:"offset"` // of the file system in Out, bytes
	Size      int64         `json:"size"`   // of Out, bytes
	Partition PartitionKind `json:"partition"`
	UUID      string        `json:"uuid"` // empty on a dry run that would derive it
	HashSeed  string        `json:"hash_seed"`
	Label     string        `json:"label"`
	DataBytes int64         `json:"data_bytes"` // in regular files, holes included
	mkfs.Summary
	Warnings []Warning    `json:"warnings"`
	Skipped  []Unreadable `json:"skipped"`
	Seconds  float64      `json:"seconds"`

	Plan *mkfs.Plan `json:"-"`
}

// Run makes an image. Out appears whole or not at all: a regular file is made
// beside its place and renamed at the end, on a block device the superblock
// is written last. Errors: *UnreadableError, *LimitError, *mkfs.SizeError,
// fs.ErrExist where something is at Out, those of the device and the source.
func Run(ctx context.Context, o Options) (*Result, error) {
	start := time.Now()
	b, err := newBuilder(o)
	if err != nil {
		return nil, err
	}
	defer b.close()
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	if !o.DryRun {
		if err := b.make(ctx); err != nil {
			return nil, err
		}
	}
	return b.result(time.Since(start)), nil
}

// builder is one Run.
type builder struct {
	o       Options
	source  Source
	tree    *Tree
	content *mkfs.Content
	target  target
	mkfs    mkfs.Options
	plan    *mkfs.Plan
	uuid    [16]byte
	digest  [32]byte // of the content's attributes, when Reproducible
	report  *reporter
	bytes   int64
}

func newBuilder(o Options) (*builder, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	b := &builder{o: o, report: newReporter(o.Progress)}
	if err := b.options(); err != nil {
		return nil, err
	}
	if err := b.target.open(&b.o); err != nil {
		return nil, errors.Join(err, b.target.close())
	}
	if err := b.openSource(); err != nil {
		return nil, errors.Join(err, b.target.close())
	}
	return b, nil
}

// close frees what is open; without a commit nothing stays at Out.
func (b *builder) close() error {
	return errors.Join(b.source.Close(), b.target.close())
}

// options translates the file system's options.
func (b *builder) options() error {
	features, err := mkfs.Profile(b.o.Profile)
	if err != nil {
		return err
	}
	if features, err = features.Apply(b.o.Features); err != nil {
		return err
	}
	b.mkfs = mkfs.Options{
		BlockSize: b.o.BlockSize, InodeSize: b.o.InodeSize, Features: features,
		FreePercent: b.o.FreePercent, FreeInodes: b.o.FreeInodes, Inodes: b.o.Inodes,
		NoJournal: b.o.NoJournal, Reserved: b.o.Reserved, Label: b.o.Label,
		Time: b.time(),
	}
	if b.mkfs.BlockSize == 0 {
		b.mkfs.BlockSize = 4096
	}
	if err := b.mkfs.Check(); err != nil {
		return err
	}
	size := int64(b.mkfs.BlockSize)
	b.mkfs.FreeBlocks = uint64((b.o.FreeBytes + size - 1) / size)
	b.mkfs.JournalBlocks = uint32((b.o.Journal + size - 1) / size)
	return nil
}

// time is the file system's time as far as it is known before the scan.
func (b *builder) time() format.Time {
	switch {
	case b.o.Epoch != nil:
		return format.Time{Sec: *b.o.Epoch}
	case b.o.Reproducible:
		return format.Time{}
	}
	return format.TimeOf(time.Now())
}

// prepare scans the source and plans the image.
func (b *builder) prepare(ctx context.Context) error {
	if err := b.scan(ctx); err != nil {
		return err
	}
	if b.o.Reproducible && b.o.Epoch == nil {
		b.mkfs.Time = newestTime(b.content)
	}
	if err := b.identity(); err != nil {
		return err
	}
	blocks, err := b.target.blocks(&b.o, b.mkfs.BlockSize)
	if err != nil {
		return err
	}
	b.mkfs.Blocks = blocks
	b.plan, err = mkfs.New(b.content, b.mkfs)
	if err != nil {
		return err
	}
	return b.target.reserve(&b.o, b.plan.Bytes())
}

func (b *builder) scan(ctx context.Context) error {
	tree, err := b.newTree()
	if err != nil {
		return err
	}
	b.tree = tree
	b.report.phase("scan", 0, 0)
	if err := b.source.Scan(ctx, tree); err != nil {
		return err
	}
	if b.content, err = tree.Finish(); err != nil {
		return err
	}
	for i := range b.content.Nodes {
		if n := &b.content.Nodes[i]; n.Mode&format.ModeType == format.ModeRegular {
			b.bytes += int64(n.Size)
		}
	}
	return ctx.Err()
}

func (b *builder) newTree() (*Tree, error) {
	o := TreeOptions{BlockSize: b.mkfs.BlockSize}
	var err error
	if o.Exclude, err = NewExclude(b.o.Exclude); err != nil {
		return nil, err
	}
	if o.Owner, err = NewOwnerMap(b.o.Owner, b.o.MapOwner); err != nil {
		return nil, err
	}
	if o.Xattrs, err = NewXattrFilter(b.o.Xattrs); err != nil {
		return nil, err
	}
	if b.o.Epoch != nil {
		o.Epoch = &format.Time{Sec: *b.o.Epoch}
		o.Time = *o.Epoch
	}
	return NewTree(o), nil
}

// identity settles the hash seed, which the plan needs, and the UUID as far
// as it does not depend on the files' data.
func (b *builder) identity() error {
	var random [32]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	copy(b.uuid[:], random[:16])
	copy(b.mkfs.HashSeed[:], random[16:])
	if b.o.Reproducible {
		b.digest = attributeDigest(b.content)
		copy(b.mkfs.HashSeed[:], b.digest[:])
	}
	setVersion(&b.uuid, 4)
	setVersion(&b.mkfs.HashSeed, 4)
	if b.o.UUID != nil {
		b.uuid = *b.o.UUID
	}
	if b.o.HashSeed != nil {
		b.mkfs.HashSeed = *b.o.HashSeed
	}
	return nil
}

// setVersion marks a UUID as one of the given version (RFC 9562).
func setVersion(u *[16]byte, version byte) {
	u[6] = u[6]&0x0F | version<<4
	u[8] = u[8]&0x3F | 0x80
}

// make writes the image and puts it in place.
func (b *builder) make(ctx context.Context) error {
	dev, err := b.target.device(&b.o)
	if err != nil {
		return err
	}
	if b.o.wrap != nil {
		dev = b.o.wrap(dev)
	}
	if err := b.copy(ctx, dev); err != nil {
		return err
	}
	b.report.phase("write", 0, 0)
	w := mkfs.WriteOptions{UUID: b.uuid, Workers: b.o.Workers, Dirty: b.target.dirty}
	if err := b.plan.Write(ctx, dev, w); err != nil {
		return err
	}
	if err := b.target.table(&b.o, b.plan.Bytes(), b.uuid); err != nil {
		return err
	}
	if err := b.verify(ctx, dev); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.target.commit(b.o.Sync)
}

// copy puts the files' data in place and settles the UUID.
func (b *builder) copy(ctx context.Context, dev device.Device) error {
	derive := b.o.Reproducible && b.o.UUID == nil
	b.report.phase("copy", b.bytes, int64(len(b.plan.Files())))
	digest, err := copyData(ctx, b.plan, b.content, b.source, dev, copyOptions{
		Workers: b.o.Workers, Dirty: b.target.dirty, Digest: derive, Progress: b.report.add,
	})
	if err != nil {
		return err
	}
	if derive {
		b.uuid = deriveUUID(b.digest, digest)
	}
	if tar, ok := b.source.(*TarSource); ok {
		return tar.Changed()
	}
	return nil
}

func (b *builder) verify(ctx context.Context, dev device.Device) error {
	if !b.o.Verify {
		return nil
	}
	b.report.phase("verify", b.bytes, int64(len(b.plan.Files())))
	err := Verify(ctx, dev, b.source, b.content, VerifyOptions{Workers: b.o.Workers, Progress: b.report.add})
	if err != nil {
		return fmt.Errorf("the image is not what its source is: %w", err)
	}
	return nil
}

func (b *builder) result(took time.Duration) *Result {
	r := &Result{
		Out: b.o.Out, Offset: b.target.offset, Size: b.target.size, Partition: b.o.Partition,
		HashSeed: uuidString(b.mkfs.HashSeed), Label: b.o.Label, DataBytes: b.bytes,
		Summary: b.plan.Summary(), Warnings: b.tree.Warnings(), Skipped: b.tree.Skipped(),
		Seconds: took.Seconds(), Plan: b.plan,
	}
	if !b.o.DryRun || b.o.UUID != nil {
		r.UUID = uuidString(b.uuid)
	}
	if r.Partition == "" {
		r.Partition = PartitionNone
	}
	return r
}
