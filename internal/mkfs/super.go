package mkfs

import (
	"encoding/binary"
	"math/bits"

	"drydock/format"
	"drydock/internal/extent"
)

// superblock is the primary superblock, but for what is counted in the end.
func (p *Plan) superblock(uuid [16]byte) format.Superblock {
	g, o := &p.groups.Geometry, &p.Options
	s := make(format.Superblock, format.SuperblockSize)
	s.SetMagic(format.SuperMagic)
	s.SetRevLevel(format.RevDynamic)
	s.SetFeatures(g.Features)
	s.SetInodesCount(g.InodesCount)
	s.SetBlocksCount(uint64(g.BlocksCount))
	s.SetFirstDataBlock(uint32(g.FirstDataBlock))
	log := uint32(bits.TrailingZeros(uint(g.BlockSize / 1024)))
	s.SetLogBlockSize(log)
	s.SetLogClusterSize(log)
	s.SetBlocksPerGroup(g.BlocksPerGroup)
	s.SetClustersPerGroup(g.BlocksPerGroup)
	s.SetInodesPerGroup(g.InodesPerGroup)
	s.SetFirstIno(uint32(format.FirstNonReservedIno))
	s.SetInodeSize(uint16(g.InodeSize))
	s.SetReservedGDTBlocks(uint16(g.ReservedGDTBlocks))
	s.SetFirstMetaBg(g.FirstMetaBg)
	s.SetLogGroupsPerFlex(uint8(g.LogGroupsPerFlex))
	s.SetBackupBGs(g.BackupBGs)
	if g.DescSize > format.DescSize32 {
		s.SetDescSize(uint16(g.DescSize))
	}
	s.SetUUID(uuid)
	s.SetVolumeName(o.Label)
	s.SetHashSeed(o.HashSeed)
	s.SetDefHashVersion(format.HashHalfMD4)
	s.SetFlags(hashSigned)
	p.policies(s)
	p.sealing(s, uuid)
	p.hiddenFiles(s)
	return s
}

// policies fills in what guides the kernel and e2fsck later.
func (p *Plan) policies(s format.Superblock) {
	now := uint64(max(0, p.Options.Time.Sec))
	s.SetMkfsTime(now)
	s.SetWtime(now)
	s.SetLastcheck(now)
	s.SetState(format.StateClean)
	s.SetErrors(errorsContinue)
	s.SetMaxMntCount(maxMountCountNone)
	s.SetDefaultMountOpts(mountOptXattrACL)
	s.SetRBlocksCount(p.reservedBlocks())
	if p.extraIsize() > 0 {
		s.SetMinExtraIsize(extraIsize)
		s.SetWantExtraIsize(extraIsize)
	}
}

// reservedBlocks is the number of blocks that only root may use.
func (p *Plan) reservedBlocks() uint64 {
	return uint64(float64(p.groups.BlocksCount) * p.Options.Reserved / 100)
}

// sealing fills in what the checksums go by.
func (p *Plan) sealing(s format.Superblock, uuid [16]byte) {
	if p.groups.Features.ROCompat&format.ROCompatMetadataCsum != 0 {
		s.SetChecksumType(1) // crc32c
	}
	if p.groups.Features.Incompat&format.IncompatCsumSeed != 0 {
		s.SetChecksumSeed(format.Crc32c(^uint32(0), uuid[:]))
	}
}

// hiddenFiles names journal and orphan file, and keeps a copy of how the
// journal's inode maps its blocks.
func (p *Plan) hiddenFiles(s format.Superblock) {
	if p.hasOrphanFile() && p.journal > 0 {
		s.SetOrphanFileInum(uint32(p.orphanIno()))
	}
	if p.journal == 0 {
		return
	}
	s.SetJournalInum(uint32(format.JournalIno))
	s.SetJnlBackupType(1)
	var iblock [60]byte
	exts := p.groups.stream.extents(nil, 0, p.journalAt, p.journal)
	alloc := make([]format.Block, extent.NodesNeeded(len(exts), p.Options.BlockSize))
	for i := range alloc {
		alloc[i] = p.groups.stream.block(p.journalAt + p.journal + uint64(i))
	}
	iblock, _ = extent.Build(p.Options.BlockSize, exts, alloc)
	s.SetJnlBlocks(journalBackup(iblock, p.journal*uint64(p.Options.BlockSize)))
}

// journalBackup is the superblock's copy of the journal's inode: i_block, then
// the high and low half of the size.
func journalBackup(iblock [60]byte, size uint64) (v [17]uint32) {
	for i := range 15 {
		v[i] = binary.LittleEndian.Uint32(iblock[4*i:])
	}
	v[15], v[16] = uint32(size>>32), uint32(size)
	return v
}

// super writes the superblock, the last write of all.
func (w *writer) super() error {
	format.SealSuperblock(w.sb)
	_, err := w.dev.WriteAt(w.sb, format.SuperblockOffset)
	return err
}

// backups writes superblock and descriptors of the groups that have copies,
// and the descriptors of group 0. Like mke2fs it leaves backups marked as not
// cleanly unmounted.
func (w *writer) backups() error {
	out := w.blockWriter()
	defer w.release(out)
	backup := append(format.Superblock(nil), w.sb...)
	backup.SetState(0)
	for i := range w.groups.Groups() {
		g := format.Group(i)
		if g > 0 && w.groups.HasSuper(g) {
			backup.SetBlockGroupNr(uint16(min(uint32(g), 1<<16-1)))
			format.SealSuperblock(backup)
			if err := out.put(w.groups.SuperBlock(g), backup); err != nil {
				return err
			}
		}
		if err := w.groupDescs(out, g); err != nil {
			return err
		}
	}
	return out.flush()
}

// groupDescs writes the descriptor blocks that lie in group g.
func (w *writer) groupDescs(out *blockWriter, g format.Group) error {
	at, n := w.groups.GroupDescBlocks(g)
	first := 0
	if w.groups.Features.Incompat&format.IncompatMetaBg != 0 {
		first = int(g) / w.groups.DescsPerBlock()
	}
	size := w.Options.BlockSize
	for i := range n {
		if err := out.put(at+format.Block(i), w.descs[(first+i)*size:(first+i+1)*size]); err != nil {
			return err
		}
	}
	return nil
}
