package build

import (
	"context"
	"runtime"
	"sync"

	"drydock/device"
	"drydock/format"
	"drydock/internal/mkfs"
)

// layout says where the data of files goes. It depends on the content alone,
// and so does all that is copied.
type layout interface {
	// Files returns the regular files that have data, ordered by their first data block.
	Files() []uint32

	// Extents appends the extents of a file to buf, ascending.
	Extents(node uint32, buf []format.Extent) []format.Extent

	BlockSize() int
}

// copyOptions says how data is copied. The zero value is right for a fresh
// image file.
type copyOptions struct {
	Workers int  // goroutines; 0: as many as there are CPUs to use
	Dirty   bool // the device may hold old data: what has to read as zeros is zeroed
	Digest  bool // compute the digest of the data

	// Progress, if given, is told what was added since it was last called, by
	// any worker.
	Progress func(bytes, files int64)
}

// copyData puts the data of all files where l says. Holes are neither read nor
// written, but for what shares a block with data.
//
// The data is cut into jobs of at most jobBytes, in the order of l, and workers
// take one after the other: small files that lie side by side are read into
// one buffer and written at once. Memory is jobBytes for each worker, however
// many and large the files are.
//
// The digest is that of the content: it depends neither on the device nor on
// Workers. An error of a source names the file. Of several errors the one that
// comes first in the order of l is returned.
func copyData(ctx context.Context, l layout, c *mkfs.Content, src Source, dev device.Device, o copyOptions) (digest [32]byte, err error) {
	m := newCopier(l, c, src, dev, o)
	var group sync.WaitGroup
	for range m.workers() {
		group.Go(func() { m.work(ctx) })
	}
	group.Wait()
	if m.err != nil {
		return digest, m.err
	}
	return m.digest.sum(), ctx.Err()
}

// copier is one run of copyData.
type copier struct {
	cutter
	copyOptions
	src     Source
	dev     device.Device
	sharing *sharing
	digest  digests

	errMu  sync.Mutex
	err    error
	errSeq uint64 // job that err comes from
}

func newCopier(l layout, c *mkfs.Content, src Source, dev device.Device, o copyOptions) *copier {
	m := &copier{copyOptions: o, src: src, dev: dev}
	m.cutter = newCutter(l, c)
	m.sharing = newSharing(dev)
	return m
}

func (m *copier) workers() int {
	switch {
	case len(m.files) == 0:
		return 0
	case m.Workers > 0:
		return m.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// work does jobs until there are no more, or one fails.
func (m *copier) work(ctx context.Context) {
	w := newCopyWorker(ctx, m)
	defer w.close()
	for ctx.Err() == nil && m.next(&w.job) {
		if err := w.do(); err != nil {
			m.fail(w.job.seq, err)
			return
		}
	}
	if err := w.file.close(); err != nil {
		m.fail(w.file.seq, m.named(w.file.node, err))
	}
}

// fail notes an error. Jobs that were begun go on: one of them may come before
// this one and fail too.
func (m *copier) fail(seq uint64, err error) {
	m.stop()
	m.errMu.Lock()
	defer m.errMu.Unlock()
	if m.err == nil || seq < m.errSeq {
		m.err, m.errSeq = err, seq
	}
}

// named adds the path of a file to an error that does not have it yet.
func (m *copier) named(node uint32, err error) error {
	if err == ErrChanged { // without a path
		return changedError(m.content.Path(node))
	}
	return err
}
