package build

import (
	"context"
	"crypto/sha256"
	"hash"
)

// smallReader reads small files, each as a whole. Each worker has its own.
type smallReader interface {
	// read reads the data of those pieces of a job that todo lists. Where it
	// fails it returns which piece it was. It fails with ErrChanged where a file
	// is shorter or longer than planned.
	read(j *job, todo []int) (failed int, err error)

	close()
}

// copyWorker is what one goroutine of a copier has for itself.
type copyWorker struct {
	*copier
	job   job
	small smallReader
	todo  []int // pieces of job that small has to read
	file  openFile
	hash  hash.Hash
}

func newCopyWorker(ctx context.Context, m *copier) *copyWorker {
	return &copyWorker{
		copier: m, job: newJob(), hash: sha256.New(),
		small: newSmallReader(ctx, m.src, m.content), todo: make([]int, 0, jobPieces),
	}
}

func (w *copyWorker) close() {
	w.small.close()
	w.file.close()
	w.job.free()
}

// do does one job.
func (w *copyWorker) do() error {
	if err := w.fill(); err != nil {
		return err
	}
	if err := w.write(); err != nil {
		return err
	}
	if w.Digest {
		w.digest.add(w.job.seq, digestJob(w.hash, &w.job))
	}
	if w.Progress != nil {
		w.Progress(w.job.progress())
	}
	return nil
}

// fill brings each piece into the buffer or, where the host can do that, to its
// place on the device.
func (w *copyWorker) fill() error {
	w.todo = w.todo[:0]
	for i := range w.job.pieces {
		p := &w.job.pieces[i]
		if !w.sharing.wants(p) {
			w.todo = append(w.todo, i)
			continue
		}
		if err := w.large(p); err != nil {
			return w.named(p.node, err)
		}
	}
	if i, err := w.small.read(&w.job, w.todo); err != nil {
		return w.named(w.job.pieces[i].node, err)
	}
	return nil
}

// large is fill for a piece that is large or not all of its file.
func (w *copyWorker) large(p *piece) error {
	if err := w.open(p); err != nil {
		return err
	}
	p.shared = w.sharing.share(&w.file, p)
	from := p.shared
	if w.Digest {
		from = 0
	}
	if err := readFull(w.file.data, w.job.data(p)[from:], p.off+int64(from)); err != nil {
		return err
	}
	if p.ends() {
		return w.file.close()
	}
	return nil
}

// open makes file the file of p.
func (w *copyWorker) open(p *piece) error {
	if w.file.data != nil && w.file.node == p.node {
		return nil
	}
	if err := w.file.close(); err != nil {
		return w.named(w.file.node, err)
	}
	data, err := w.src.Open(w.content.Nodes[p.node].Source)
	if err != nil {
		return err
	}
	w.file = newOpenFile(p.node, w.job.seq, data)
	return nil
}

// write writes what is not on the device yet, neighbours at once.
func (w *copyWorker) write() error {
	pieces := w.job.pieces
	for i := 0; i < len(pieces); {
		n := neighbours(pieces[i:])
		if err := w.writeRun(pieces[i : i+n]); err != nil {
			return err
		}
		i += n
	}
	return w.zeroTails()
}

// neighbours is the number of pieces from the first on that can be written at
// once: those that are as far apart on the device as they are in the buffer.
func neighbours(pieces []piece) int {
	n := 1
	for n < len(pieces) && pieces[n].shared == 0 &&
		pieces[n].dev-pieces[0].dev == int64(pieces[n].at-pieces[0].at) {
		n++
	}
	return n
}

// writeRun writes neighbours, after clearing what lies between the data of each
// and the next. The first may be on the device in part or as a whole.
func (w *copyWorker) writeRun(run []piece) error {
	from := run[0].at + run[0].shared
	end := from
	for i := range run {
		end = run[i].at + padded(run[i].n, w.pad)
		clear(w.job.buf[run[i].at+run[i].n : end])
	}
	if from == end {
		return nil
	}
	_, err := w.dev.WriteAt(w.job.buf[from:end], run[0].dev+int64(run[0].shared))
	return err
}

var zeroBlock [64 << 10]byte // a block of the largest size

// zeroTails zeroes what is left of the last block of each file where the
// device may hold something else. Where blocks are no larger than what data is
// padded to, nothing is left.
func (w *copyWorker) zeroTails() error {
	if !w.Dirty || int64(w.pad) == w.block {
		return nil
	}
	for i := range w.job.pieces {
		p := &w.job.pieces[i]
		from, to := padded(p.n, w.pad), padded(p.n, int(w.block))
		if _, err := w.dev.WriteAt(zeroBlock[:to-from], p.dev+int64(from)); err != nil {
			return err
		}
	}
	return nil
}

// progress returns the bytes of a job, and how many files it has begun.
func (j *job) progress() (bytes, files int64) {
	for i := range j.pieces {
		bytes += int64(j.pieces[i].n)
		if j.pieces[i].first {
			files++
		}
	}
	return bytes, files
}
