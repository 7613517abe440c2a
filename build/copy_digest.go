package build

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// digests joins the digests of jobs, which come in any order, into one: the
// SHA-256 of all of them in the order of the jobs.
type digests struct {
	mu    sync.Mutex // guards what follows
	total hash.Hash
	next  uint64                       // job that total lacks
	early map[uint64][sha256.Size]byte // of jobs after it
}

// add adds the digest of a job.
func (d *digests) add(seq uint64, sum [sha256.Size]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.init()
	d.early[seq] = sum
	for {
		sum, ok := d.early[d.next]
		if !ok {
			return
		}
		d.total.Write(sum[:])
		delete(d.early, d.next)
		d.next++
	}
}

// sum returns the digest of all jobs; zeros if none was added.
func (d *digests) sum() (sum [sha256.Size]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.total != nil {
		d.total.Sum(sum[:0])
	}
	return sum
}

func (d *digests) init() {
	if d.total == nil {
		d.total = sha256.New()
		d.early = make(map[uint64][sha256.Size]byte)
	}
}

// digestJob returns the SHA-256 of the data of a job, each piece with its
// offset and length in front (8 bytes each, little-endian).
func digestJob(h hash.Hash, j *job) (sum [sha256.Size]byte) {
	h.Reset()
	var head [16]byte
	for i := range j.pieces {
		p := &j.pieces[i]
		binary.LittleEndian.PutUint64(head[:], uint64(p.off))
		binary.LittleEndian.PutUint64(head[8:], uint64(p.n))
		h.Write(head[:])
		h.Write(j.data(p))
	}
	h.Sum(sum[:0])
	return sum
}
