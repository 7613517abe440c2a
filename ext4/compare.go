package ext4

import (
	"drydock/cache"
	"drydock/format"
	"drydock/journal"
)

// Compare turns single techniques off, so that a benchmark can measure what each
// is good for. The zero value is right for all else.
type Compare struct {
	WholeFolio        bool // a write makes its whole folio dirty, not the blocks written
	TxPerWrite        bool // every WriteAt changes the inode in a transaction of its own
	UnserialisedAlloc bool // direct writes take no turns: blocks are chosen and written in any order
	OverwriteLock     bool // direct overwrites take the lock of allocation, too
	JournalCopy       journal.CopyPolicy
}

// Stats counts what was done since the file system was opened.
type Stats struct {
	Cache   cache.Stats   // file data
	Journal journal.Stats // metadata, and data in the journal
}

// Stats returns the counters of the cache and the journal.
func (fsys *FS) Stats() Stats {
	return Stats{Cache: fsys.files.budget(fsys).Stats(), Journal: fsys.j.Stats()}
}

// touchInTx is what TxPerWrite does for a write.
func (d *fileData) touchInTx() error {
	return d.change(func(t *Tx, raw format.Inode) error {
		raw.SetMtime(t.time)
		raw.SetCtime(t.time)
		return nil
	})
}
