package ext4

import (
	"fmt"
	"io"

	"drydock/format"
	"drydock/journal"
)

// appendToLog writes blocks, as data has them, to the log as one transaction: the
// one that the log expects next. All transactions before it are in place, so that
// it may begin the log anew.
//
//	superblock: s_start, s_sequence = this one   (FUA; the log is empty but for fast commits)
//	descriptor, blocks, ... -> flush
//	commit block                                 (FUA; fast commits are older than the log from here on)
func (fsys *FS) appendToLog(rec *journal.Recovery, area *journal.Area, data io.ReaderAt, blocks []format.Block) error {
	w := logWriter{f: rec.Super.Format(), uuid: rec.Super.UUID(), tid: rec.End, crc: ^uint32(0)}
	if err := w.add(data, blocks); err != nil {
		return err
	}
	if room := int(rec.Super.LogEnd() - rec.Super.First()); len(w.log)+1 > room {
		return fmt.Errorf("fast commits change %d blocks, more than the log of %d blocks can take", len(blocks), room)
	}
	super := append(format.JournalSuperblock(nil), rec.Super...)
	super.SetStart(super.First())
	super.SetSequence(rec.End)
	if err := area.WriteSuperblock(super); err != nil {
		return err
	}
	if err := area.WriteBlocks(super.First(), w.log); err != nil {
		return err
	}
	if err := area.Device.Flush(); err != nil {
		return err
	}
	commit := make([]byte, fsys.geo.BlockSize)
	now := fsys.now()
	w.f.PutCommit(commit, w.tid, uint64(max(now.Sec, 0)), now.Nsec, w.crc)
	return area.WriteBlockFUA(super.First()+uint32(len(w.log)), commit)
}

// logWriter lays out one transaction.
type logWriter struct {
	f    format.JournalFormat
	uuid [16]byte
	tid  format.Tid
	log  [][]byte // the blocks of the log
	crc  uint32   // of all of them, for csum v1
}

// add appends descriptors and copies of blocks.
func (w *logWriter) add(data io.ReaderAt, blocks []format.Block) error {
	for len(blocks) > 0 {
		desc := make([]byte, w.f.BlockSize)
		d := w.f.NewDescriptor(desc, w.tid, w.uuid)
		at := len(w.log)
		w.log = append(w.log, desc)
		for len(blocks) > 0 && !d.Full() {
			p := make([]byte, w.f.BlockSize)
			if err := readFull(data, p, int64(blocks[0])*int64(w.f.BlockSize)); err != nil {
				return err
			}
			escaped := format.EscapeJournalBlock(p)
			d.Add(blocks[0], escaped, w.f.TagSum(w.tid, p))
			w.log = append(w.log, p)
			blocks = blocks[1:]
		}
		d.Close()
		for _, b := range w.log[at:] {
			w.crc = format.JournalCRC(w.crc, b)
		}
	}
	return nil
}
