package build

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"drydock/device"
	"drydock/ext4"
	"drydock/internal/partition"
)

// target is where the image goes: a new file, an existing image that gets a
// file system at an offset, or a block device.
type target struct {
	temp   *device.Temp // the file in the making
	block  *device.File // or the block device
	old    *device.File // an existing image, which temp begins as a copy of
	dirty  bool         // may hold old data where nothing is written
	offset int64        // of the file system, bytes
	size   int64        // of the whole, bytes; 0: not settled
	room   int64        // for the file system, bytes; 0: no limit
}

// open looks at what is at o.Out and refuses what may not be replaced, before
// any work is done.
func (t *target) open(o *Options) error {
	if o.Offset < 0 {
		return fmt.Errorf("offset of %d bytes: want 0 or more", o.Offset)
	}
	if o.Offset > 0 && o.Partition.hasTable() {
		return errors.New("an offset and a partition table exclude each other: the partition has its own place")
	}
	t.offset = o.Offset
	info, err := os.Stat(o.Out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t.openNew(o)
	case err != nil:
		return err
	case info.Mode().IsRegular():
		return t.openExisting(o)
	case info.Mode().Type() == fs.ModeDevice:
		return t.openBlock(o)
	}
	return &fs.PathError{Op: "create", Path: o.Out, Err: errors.New("neither a regular file nor a block device")}
}

func (t *target) openNew(o *Options) error {
	_, err := os.Stat(filepath.Dir(o.Out))
	return err
}

func (t *target) openExisting(o *Options) error {
	if !o.Force {
		return &fs.PathError{Op: "create", Path: o.Out, Err: fs.ErrExist}
	}
	if o.Offset == 0 || o.DryRun {
		return nil
	}
	var err error
	if t.old, err = device.Open(o.Out, device.Options{ReadOnly: true}); err != nil {
		return err
	}
	t.dirty = true
	t.size = t.old.Size()
	t.room, err = roomAt(t.old, o.Offset)
	return err
}

func (t *target) openBlock(o *Options) error {
	dev, err := device.Open(o.Out, device.Options{ReadOnly: o.DryRun})
	if err != nil {
		return err
	}
	t.block, t.dirty, t.size = dev, true, dev.Size()
	if what := ext4.Identify(dev); what != "empty" && !o.Force && o.Offset == 0 && !o.DryRun {
		return fmt.Errorf("%s: holds %s already: %w", o.Out, what, fs.ErrExist)
	}
	t.room = dev.Size() - o.Offset
	if o.Partition.hasTable() {
		t.room, t.offset = o.Partition.Room(dev.Size())
	} else if o.Offset > 0 {
		t.room, err = roomAt(dev, o.Offset)
	}
	return err
}

// roomAt is how many bytes a file system at off may have on a disk: those of
// the partition that begins there. 0 means that nothing limits it, as on an
// image without a partition table, which may grow.
func roomAt(disk *device.File, off int64) (int64, error) {
	parts, err := partition.Read(disk)
	switch {
	case errors.Is(err, partition.ErrNoTable) && disk.IsBlock():
		return disk.Size() - off, nil
	case errors.Is(err, partition.ErrNoTable):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("%s: %w", disk.Path(), err)
	}
	for _, p := range parts {
		if p.Start == off {
			return p.Size, nil
		}
	}
	return 0, fmt.Errorf("%s: has a partition table, and no partition of it begins at byte %d", disk.Path(), off)
}

// blocks is the size that the file system shall have, in blocks; 0: the
// smallest.
func (t *target) blocks(o *Options, blockSize int) (uint64, error) {
	size := o.Size
	switch {
	case o.Smallest && size > 0:
		return 0, fmt.Errorf("a size of %d bytes and the smallest size exclude each other", size)
	case size > 0 && o.Partition.hasTable() && t.block == nil:
		size, t.offset = o.Partition.Room(size)
		if size <= 0 {
			return 0, fmt.Errorf("size of %d bytes: too small for a partition table of kind %s", o.Size, o.Partition)
		}
	case size == 0 && !o.Smallest:
		size = t.room
	}
	if size < 0 || t.room > 0 && size > t.room {
		return 0, fmt.Errorf("size of %d bytes: %s has room for %d", size, o.Out, t.room)
	}
	if size > 0 && size < int64(blockSize) {
		return 0, fmt.Errorf("size of %d bytes: less than one block of %d", size, blockSize)
	}
	return uint64(size) / uint64(blockSize), nil
}

// reserve settles the size of the whole, now that of the file system is known.
func (t *target) reserve(o *Options, fsBytes int64) error {
	if t.room > 0 && fsBytes > t.room {
		return fmt.Errorf("the image takes %d bytes, %s has room for %d", fsBytes, o.Out, t.room)
	}
	if t.block != nil {
		return nil
	}
	if o.Partition.hasTable() {
		total, offset := o.Partition.PartitionedSize(fsBytes)
		t.size, t.offset = max(total, o.Size), offset
		return nil
	}
	t.size = max(t.size, t.offset+fsBytes)
	if o.Size > 0 && o.Offset == 0 {
		t.size = o.Size
	}
	return nil
}

// device returns what the file system is written to.
func (t *target) device(o *Options) (device.Device, error) {
	whole, err := t.whole(o)
	if err != nil {
		return nil, err
	}
	if t.offset == 0 {
		return whole, nil
	}
	return device.NewWindow(whole, t.offset, whole.Size()-t.offset)
}

// whole returns the whole disk; a file begins as a copy of the old image.
func (t *target) whole(o *Options) (device.Device, error) {
	if t.block != nil {
		return t.block, nil
	}
	if t.temp != nil {
		return t.temp, nil
	}
	if t.old != nil {
		// CreateTemp locks what it replaces; the copy needs no second lock.
		old, err := os.Open(o.Out)
		if err != nil {
			return nil, err
		}
		defer old.Close()
		size := t.old.Size()
		if err := t.old.Close(); err != nil {
			return nil, err
		}
		t.old = nil
		return t.begin(o, func() error { return device.CopySparse(t.temp, old, size) })
	}
	return t.begin(o, func() error { return nil })
}

// begin creates the file and fills it.
func (t *target) begin(o *Options, fill func() error) (device.Device, error) {
	temp, err := device.CreateTemp(o.Out, device.TempOptions{Size: t.size, Force: o.Force})
	if err != nil {
		return nil, err
	}
	t.temp = temp
	return temp, fill()
}

// table writes the partition table, if there is to be one.
func (t *target) table(o *Options, fsBytes int64, id [16]byte) error {
	if !o.Partition.hasTable() {
		return nil
	}
	disk, err := t.whole(o)
	if err != nil {
		return err
	}
	p := Partition{Kind: o.Partition, Size: fsBytes, UUID: id, Name: o.Label}
	if t.block != nil {
		p.SectorSize = t.block.SectorSize()
	}
	return WritePartition(disk, p)
}

// commit puts the file in its place. What is on a block device is flushed in
// any case: it may be unplugged.
func (t *target) commit(sync bool) error {
	if t.block != nil {
		return t.block.Flush()
	}
	return t.temp.Commit(sync)
}

// close frees everything; a file that was not committed is gone.
func (t *target) close() error {
	var errs []error
	if t.temp != nil {
		errs = append(errs, t.temp.Abort())
	}
	for _, f := range []*device.File{t.block, t.old} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
