package build

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"drydock/internal/mkfs"
)

// Whiteouts says what entries mean that take away what a lower layer gave:
// ".wh.NAME" takes NAME away, ".wh..wh..opq" all that its directory had.
// Source: OCI image layer specification, "Whiteouts".
type Whiteouts string

// The meanings of whiteouts. The empty one is WhiteoutsKeep for one archive
// and WhiteoutsApply for several.
const (
	WhiteoutsApply   Whiteouts = "apply"   // take away what lower layers gave, then they are gone
	WhiteoutsOverlay Whiteouts = "overlay" // become what overlayfs has in their place
	WhiteoutsKeep    Whiteouts = "keep"    // are files like all others
)

// ParseWhiteouts reads the name of a meaning.
func ParseWhiteouts(s string) (Whiteouts, error) {
	switch w := Whiteouts(s); w {
	case "", WhiteoutsApply, WhiteoutsOverlay, WhiteoutsKeep:
		return w, nil
	}
	return "", fmt.Errorf("whiteouts %q: want %s, %s or %s", s, WhiteoutsApply, WhiteoutsOverlay, WhiteoutsKeep)
}

// TarOptions says how archives are read.
type TarOptions struct {
	Whiteouts Whiteouts
	Holes     HoleMode
	SpoolDir  string // where file data of archives that are read once is kept meanwhile; "": os.TempDir
}

// TarInput is one archive: tar in any of its forms, also compressed by gzip or
// zstd, from a file or a stream.
type TarInput struct {
	Name   string    // a path, or how messages call the Reader
	Reader io.Reader // nil: the file at Name is opened
}

// TarSource is one or more tar archives. Several are layers, the lowest first:
// what a later one has replaces what earlier ones had.
//
// A plain archive in a file is read twice, once for its headers and then, in
// any order, for file data. Data of any other is kept in a temporary file.
type TarSource struct {
	o       TarOptions
	layers  []*tarLayer
	spool   spool
	members slab[tarExtent]
	sparse  []sparseMember // members with holes
}

// tarLayer is an open archive.
type tarLayer struct {
	name   string
	r      io.Reader
	f      *os.File    // r, if its parts can be read in any order
	info   os.FileInfo // of f when it was opened
	at     int64       // where the archive begins in f
	owned  bool        // f is to be closed
	direct bool        // data is read from f
	head   []byte      // the first bytes

	closed atomic.Uint64 // members read, for check
}

// tarExtent is where the data of a member lies.
type tarExtent struct {
	place uint64 // layer in the high 16 bits, spoolLayer for the spool, and the offset
	size  uint64 // bytes there
}

// sparseMember is a member with holes.
type sparseMember struct {
	tarExtent
	ranges []mkfs.Range // one after another in the data
	size   uint64       // of the file
}

const (
	placeBits  = 48
	spoolLayer = 1<<(64-placeBits) - 1
	maxLayers  = spoolLayer
	sparseFlag = 1 << 32 // of a handle, whose low half is an index in sparse; else in members
)

// NewTarSource opens archives, the lowest layer first.
func NewTarSource(inputs []TarInput, o TarOptions) (*TarSource, error) {
	if len(inputs) == 0 || len(inputs) > maxLayers {
		return nil, fmt.Errorf("%d archives: want 1 to %d", len(inputs), maxLayers)
	}
	if o.Whiteouts == "" {
		o.Whiteouts = WhiteoutsKeep
		if len(inputs) > 1 {
			o.Whiteouts = WhiteoutsApply
		}
	}
	s := &TarSource{o: o, spool: spool{dir: o.SpoolDir}}
	for _, in := range inputs {
		layer, err := openLayer(in)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.layers = append(s.layers, layer)
	}
	return s, nil
}

// openLayer opens an archive. A Reader that is a regular file is read from
// where it stands.
func openLayer(in TarInput) (*tarLayer, error) {
	l := &tarLayer{name: in.Name, r: in.Reader}
	f, _ := in.Reader.(*os.File)
	if in.Reader == nil {
		var err error
		if f, err = os.Open(in.Name); err != nil {
			return nil, err
		}
		l.r, l.owned = f, true
	}
	if f == nil {
		return l, nil
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		l.f, l.info = f, info
		l.at, err = f.Seek(0, io.SeekCurrent)
	}
	if err != nil && l.owned {
		f.Close()
	}
	return l, err
}

// Close closes what NewTarSource opened and gives the temporary file back.
func (s *TarSource) Close() error {
	err := s.spool.close()
	s.members.free()
	for _, l := range s.layers {
		if l.owned {
			err = errors.Join(err, l.r.(*os.File).Close())
		}
	}
	s.layers = nil
	return err
}

// Scan reads all archives.
func (s *TarSource) Scan(ctx context.Context, t *Tree) error {
	a := newTarApplier(s, t)
	for i, l := range s.layers {
		a.layer = uint32(i)
		if err := s.scanLayer(ctx, a, l); err != nil {
			return err
		}
	}
	a.finish()
	return errors.Join(s.spool.flush(), t.Err())
}

// scanLayer reads one archive.
func (s *TarSource) scanLayer(ctx context.Context, a *tarApplier, l *tarLayer) error {
	in, stop, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer stop()
	r := newTarReader(in)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		m, err := r.member()
		if err == io.EOF {
			break
		}
		if err != nil {
			return l.explain(r, err)
		}
		if err := s.take(ctx, a, r, m); err != nil {
			return r.where(l.name, err)
		}
	}
	if err := in.drain(); err != nil {
		return r.where(l.name, damaged(err))
	}
	return a.resolveLinks(l.name)
}

// explain tells a damaged archive from a file of another kind.
func (l *tarLayer) explain(r *tarReader, err error) error {
	if r.at == 0 && (errors.Is(err, errTarSum) || errors.Is(err, errTarShort)) {
		if err := checkFormat(l.name, l.head); err != nil {
			return err
		}
	}
	return r.where(l.name, damaged(err))
}

// damaged marks an error as one of the archive, unless it is one of the host
// or the scan was cancelled.
func damaged(err error) error {
	var host *os.PathError
	if errors.As(err, &host) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrTarDamaged, err)
}

// open finds out what kind of archive it is.
func (l *tarLayer) open(ctx context.Context) (in tarInput, stop func(), err error) {
	br := bufio.NewReaderSize(contextReader{ctx, l.r}, inputBuffer)
	head, err := br.Peek(peekLen)
	if err != nil && err != io.EOF {
		return nil, nil, &os.PathError{Op: "read", Path: l.name, Err: err}
	}
	l.head = bytes.Clone(head)
	if l.f != nil && !isCompressed(head) {
		l.direct = true
		return newFileInput(l.f, l.at, l.info.Size()-l.at), func() {}, nil
	}
	stream, err := newStreamInput(br)
	if err != nil {
		return nil, nil, &TarError{Archive: l.name, Err: damaged(err)}
	}
	return stream, stream.close, nil
}

// take keeps the data of a member and puts the member into the tree.
func (s *TarSource) take(ctx context.Context, a *tarApplier, r *tarReader, m *tarMember) error {
	n, err := a.node(m)
	if err != nil {
		return err
	}
	r.failed = m.name
	if m.kind == tarFile && m.size > 0 {
		if err := s.data(ctx, a, r, m, &n); err != nil {
			return err
		}
	}
	return a.put(m, n)
}

// data says where the data of a member lies and which parts are holes.
func (s *TarSource) data(ctx context.Context, a *tarApplier, r *tarReader, m *tarMember, n *mkfs.Node) (err error) {
	place := uint64(a.layer)<<placeBits | uint64(s.layers[a.layer].at+m.data)
	if !s.layers[a.layer].direct {
		off, err := s.spool.add(ctx, r.in, m.stored)
		if err != nil {
			return damaged(err)
		}
		place = spoolLayer<<placeBits | uint64(off)
	} else if err := r.in.skip(m.stored); err != nil {
		return damaged(short(err))
	}
	e := tarExtent{place, uint64(m.stored)}
	if m.sparse {
		n.Source = sparseFlag | uint64(len(s.sparse))
		s.sparse = append(s.sparse, sparseMember{e, m.ranges, m.size})
	} else {
		n.Source = uint64(s.members.add(e))
	}
	return s.holes(a, m, n)
}

// holes sets the data ranges of a node as the options say.
func (s *TarSource) holes(a *tarApplier, m *tarMember, n *mkfs.Node) error {
	ranges := []mkfs.Range{{Len: m.size}}
	if m.sparse {
		ranges = m.ranges
	}
	switch s.o.Holes {
	case HolesFill:
		return nil
	case HolesDig:
		var err error
		if ranges, err = s.dig(n.Source, ranges, m.size, a.t.o.BlockSize); err != nil {
			return err
		}
	}
	if isSparse(ranges, m.size) {
		n.Sparse = true
		n.First, n.Count = a.t.AddRanges(ranges)
	}
	return nil
}

// dig reads the data of a member to find blocks of zeros.
func (s *TarSource) dig(handle uint64, ranges []mkfs.Range, size uint64, blockSize int) ([]mkfs.Range, error) {
	if err := s.spool.flush(); err != nil {
		return nil, err
	}
	d, err := s.Open(handle)
	if err != nil {
		return nil, err
	}
	if ranges, err = digRanges(d, ranges, size, blockSize, make([]byte, digBuffer)); err != nil {
		return nil, err
	}
	return ranges, d.Close()
}

// Open opens the data of a member.
func (s *TarSource) Open(handle uint64) (Data, error) {
	if handle&sparseFlag != 0 {
		i := uint32(handle)
		if int64(i) >= int64(len(s.sparse)) {
			return nil, fmt.Errorf("handle of sparse member %d of %d", i, len(s.sparse))
		}
		m := s.sparse[i]
		run := s.run(m.tarExtent)
		return &tarSparse{newSparseData(run, m.ranges, m.size), run.check}, nil
	}
	if handle >= uint64(s.members.n) {
		return nil, fmt.Errorf("handle of member %d of %d", handle, s.members.n)
	}
	return s.run(*s.members.at(uint32(handle))), nil
}

// run is a piece of an archive or of the spool.
func (s *TarSource) run(e tarExtent) *tarRun {
	f, check := s.spool.f, func() error { return nil }
	if layer := e.place >> placeBits; layer != spoolLayer {
		l := s.layers[layer]
		f, check = l.f, l.check
	}
	off := int64(e.place & (1<<placeBits - 1))
	return &tarRun{io.NewSectionReader(f, off, int64(e.size)), f, off, check}
}

// checkEvery is how many members are read from one look at whether the archive
// was changed to the next: a look costs as much as reading a small file.
const checkEvery = 64

// check fails if the archive was changed since it was opened. It looks at the
// first member and now and then; Changed looks in the end.
func (l *tarLayer) check() error {
	if l.closed.Add(1)%checkEvery != 1 {
		return nil
	}
	return l.changed()
}

// Changed fails if an archive was changed since it was opened.
func (s *TarSource) Changed() error {
	for _, l := range s.layers {
		if !l.direct {
			continue
		}
		if err := l.changed(); err != nil {
			return err
		}
	}
	return nil
}

func (l *tarLayer) changed() error {
	info, err := l.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != l.info.Size() || !info.ModTime().Equal(l.info.ModTime()) {
		return changedError(l.name)
	}
	return nil
}
