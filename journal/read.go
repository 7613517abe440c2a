package journal

import "drydock/format"

// View calls fn and lets no Tx merge meanwhile, so that all that fn gets belongs
// together. It must not be called inside a View or a Tx.
func (j *Journal) View(fn func() error) error {
	j.mergeMu.RLock()
	defer j.mergeMu.RUnlock()
	return fn()
}

// ReadBlock copies the current version of b to p. It must not be called inside a
// View.
func (j *Journal) ReadBlock(b format.Block, p []byte) error {
	return j.View(func() error {
		v, err := j.Get(b)
		if err == nil {
			copy(p, v.data)
		}
		return err
	})
}

// ReadData reads the blocks of data from b on into p, whose length is a multiple
// of the block size. It is for data: what is at home, or in memory if it was
// journaled and is not home yet. Nothing is kept in memory. The caller sees to it
// that nobody changes these blocks meanwhile.
func (j *Journal) ReadData(b format.Block, p []byte) error {
	if err := j.checkBlock(b, uint64(len(p)/j.o.BlockSize)); err != nil {
		return err
	}
	if j.o.Overlay != nil {
		return j.readEach(b, p)
	}
	for len(p) > 0 {
		in, out, err := j.split(b, p)
		if err != nil {
			return err
		}
		b += format.Block((in + out) / j.o.BlockSize)
		p = p[in+out:]
	}
	return nil
}

// split fills p as far as its first blocks are in memory, in bytes, then reads
// the out bytes behind them that are not.
func (j *Journal) split(b format.Block, p []byte) (in, out int, err error) {
	in, out = j.copyChanged(b, p)
	if out == 0 {
		return in, 0, nil
	}
	off := int64(b)*int64(j.o.BlockSize) + int64(in)
	return in, out, readFull(j.o.Device, p[in:in+out], off)
}

// copyChanged copies the leading blocks that are not home, and counts the bytes
// that follow and are. Holding mu is enough to keep a version from going away.
func (j *Journal) copyChanged(b format.Block, p []byte) (in, out int) {
	size := j.o.BlockSize
	j.mu.RLock()
	defer j.mu.RUnlock()
	for ; in < len(p); in, b = in+size, b+1 {
		v := j.changed(b)
		if v == nil {
			break
		}
		copy(p[in:in+size], v.data)
	}
	for ; in+out < len(p) && j.changed(b) == nil; out, b = out+size, b+1 {
	}
	return in, out
}

// changed returns the current version of b if it is not home. The caller holds mu.
func (j *Journal) changed(b format.Block) *Version {
	if e := j.entries[b]; e != nil && e.cur != nil && (e.cur.tx != nil || e.pinned) {
		return e.cur
	}
	return nil
}

// readEach reads block by block, because of the overlay.
func (j *Journal) readEach(b format.Block, p []byte) error {
	size := j.o.BlockSize
	for ; len(p) > 0; p, b = p[size:], b+1 {
		if err := j.readHome(b, p[:size]); err != nil {
			return err
		}
	}
	return nil
}

// Override makes data the current version of b without logging it: readers and
// later changes start from it. It is for what the caller writes to its home by
// himself. A change of b that waits to be committed is replaced.
func (j *Journal) Override(b format.Block, data []byte) {
	v := j.pool.get(b)
	copy(v.data, data)
	v.SetChecked()
	j.mergeMu.Lock()
	defer j.mergeMu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entryOf(b)
	if e.cur != nil && e.cur.tx != nil && e.cur.tx == j.running {
		j.setCurrent(e, v)
		return
	}
	j.retireCurrent(e)
	e.cur, e.pinned = v, true
}
