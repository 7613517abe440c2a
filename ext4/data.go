package ext4

import (
	"fmt"
	"io"
	"syscall"

	"drydock/format"
	"drydock/internal/extent"
)

// readable fails for an inode whose data cannot be read as bytes, and says why.
func (in *inode) readable() error {
	mode := FileMode(in.raw.Mode()).Type()
	switch {
	case in.isDir():
		return syscall.EISDIR
	case !in.isRegular():
		special := &SpecialError{Type: mode}
		if in.raw.HasDevice() {
			special.Major, special.Minor = in.raw.Device()
		}
		return special
	case in.raw.HasFlags(format.InodeEncrypt):
		return ErrEncrypted
	}
	return nil
}

// readAll returns the whole data of an inode of at most limit bytes.
func (in *inode) readAll(limit uint64) ([]byte, error) {
	if in.size() > limit {
		return nil, syscall.EFBIG
	}
	data := make([]byte, in.size())
	return data, in.readAt(data, 0)
}

// readAt fills p with the data from off on, all of which lies before the end.
func (in *inode) readAt(p []byte, off int64) error {
	if in.inline() {
		data, err := in.inlineData()
		if err == nil {
			copy(p, data[off:])
		}
		return err
	}
	return in.readMapped(p, off)
}

// readMapped fills p from the device. Extents that lie behind one another
// there are read in one piece.
func (in *inode) readMapped(p []byte, off int64) error {
	bs := int64(in.fs.geo.BlockSize)
	s := span{dev: in.fs.dev, p: p}
	first := off / bs
	if first > format.MaxLBlock {
		clear(p)
		return nil
	}
	for x, err := range in.extents(format.LBlock(first)) {
		if err != nil {
			return err
		}
		from, to := int64(x.LBlock)*bs-off, int64(x.End())*bs-off
		if from >= int64(len(p)) {
			break
		}
		if x.Unwritten {
			continue
		}
		at := int64(x.Start)*bs - from
		if err := s.add(int(max(from, 0)), int(min(to, int64(len(p)))), at+max(from, 0)); err != nil {
			return in.wrap(err)
		}
	}
	return in.wrap(s.finish())
}

// readSome reads what there is from off on: through the cache if the file has
// one, else from the device.
func (d *fileData) readSome(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, syscall.EINVAL
	}
	if len(p) == 0 {
		return 0, nil
	}
	left := d.size.Load() - off
	if left <= 0 {
		return 0, io.EOF
	}
	n := int(min(left, int64(len(p))))
	if err := d.readAt(p[:n], off); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (d *fileData) readAt(p []byte, off int64) error {
	if m := d.pages.Load(); m != nil {
		return m.ReadAt(p, off)
	}
	d.io.RLock()
	defer d.io.RUnlock()
	if d.journal {
		return d.readJournaled(p, off)
	}
	return d.readDevice(p, off)
}

// readDevice fills p with what the device holds of the file from off on; where
// it holds nothing, and behind the end of the file, that is zeros. The caller
// holds io, so that no block is freed meanwhile.
func (d *fileData) readDevice(p []byte, off int64) error {
	s := span{dev: d.fs.dev, p: p}
	err := d.eachPiece(off, len(p), func(x extent.StatusExtent, from, to int, at int64) error {
		if x.Kind != extent.Written {
			return nil
		}
		return d.wrap(s.add(from, to, at))
	})
	if err == nil {
		err = d.wrap(s.finish())
	}
	if end := d.size.Load() - off; err == nil && end < int64(len(p)) {
		clear(p[max(end, 0):])
	}
	return err
}

// wrap adds the inode to an error of the device.
func (d *fileData) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("inode %d: %w", d.n.ino, err)
}

// eachPiece calls fn for the pieces of the n bytes from off on that are alike:
// bytes from to to of them are at at on the device, if the piece has blocks.
func (d *fileData) eachPiece(off int64, n int, fn func(x extent.StatusExtent, from, to int, at int64) error) error {
	bs := d.blockSize()
	for pos := 0; pos < n; {
		first := (off + int64(pos)) / bs
		if first >= format.MaxLBlock {
			return nil
		}
		x, err := d.lookup(format.LBlock(first))
		if err != nil {
			return err
		}
		to := int(min(int64(x.End())*bs-off, int64(n)))
		at := int64(x.Start)*bs + off + int64(pos) - int64(x.LBlock)*bs
		if err := fn(x, pos, to, at); err != nil {
			return err
		}
		pos = to
	}
	return nil
}

// span fills a buffer from front to back: with runs of the device, of which it
// holds one back to see whether the next goes on where that ends, and with zeros
// between them.
type span struct {
	dev      io.ReaderAt
	p        []byte
	done     int   // p[:done] is filled
	from, to int   // p[from:to] is to be read
	at       int64 // from there on the device
}

// add takes the bytes of the device from at on for p[from:to].
func (s *span) add(from, to int, at int64) error {
	if from == s.to && s.to > s.from && at == s.at+int64(s.to-s.from) {
		s.to = to
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.from, s.to, s.at = from, to, at
	return nil
}

// flush reads the run held back.
func (s *span) flush() error {
	if s.to == s.from {
		return nil
	}
	clear(s.p[s.done:s.from])
	s.done = s.to
	return readFull(s.dev, s.p[s.from:s.to], s.at)
}

// finish reads the last run and fills what is left with zeros.
func (s *span) finish() error {
	err := s.flush()
	clear(s.p[s.done:])
	return err
}

// inlineRest returns the part of inline data that lies in an attribute.
func (in *inode) inlineRest() ([]byte, error) {
	attrs, err := format.DecodeInodeXattrs(in.xattrArea())
	for _, x := range attrs {
		if x.Index != format.XattrSystem || x.Name != inlineName {
			continue
		}
		if x.ValueInum != 0 {
			return nil, in.damaged("inline data in inode %d", x.ValueInum)
		}
		return x.Value, nil
	}
	return nil, in.wrap(err)
}

// inlineData returns the data of an inode that holds it itself.
func (in *inode) inlineData() ([]byte, error) {
	rest, err := in.inlineRest()
	if err != nil {
		return nil, err
	}
	data, err := format.InlineData(in.raw.IBlock(), rest, in.size())
	return data, in.wrap(err)
}
