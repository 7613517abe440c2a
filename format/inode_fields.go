package format

// Mode is i_mode: type and permissions.
func (n Inode) Mode() uint16 { return inMode.get(n) }

// SetMode stores what Mode reads.
func (n Inode) SetMode(v uint16) { inMode.put(n, v) }

// Dtime is i_dtime: when it was deleted, or the next inode of the orphan list.
func (n Inode) Dtime() uint32 { return inDtime.get(n) }

// SetDtime stores what Dtime reads.
func (n Inode) SetDtime(v uint32) { inDtime.put(n, v) }

// LinksCount is i_links_count: names that lead here; 1 for a directory that has too many.
func (n Inode) LinksCount() uint16 { return inLinksCount.get(n) }

// SetLinksCount stores what LinksCount reads.
func (n Inode) SetLinksCount(v uint16) { inLinksCount.put(n, v) }

// Flags is i_flags: InodeFlag bits.
func (n Inode) Flags() uint32 { return inFlags.get(n) }

// SetFlags stores what Flags reads.
func (n Inode) SetFlags(v uint32) { inFlags.put(n, v) }

// Version is i_version: change counter, low half.
func (n Inode) Version() uint32 { return inVersion.get(n) }

// SetVersion stores what Version reads.
func (n Inode) SetVersion(v uint32) { inVersion.put(n, v) }

// Generation is i_generation: tells reuses of an inode number apart, and seeds the checksums of its blocks.
func (n Inode) Generation() uint32 { return inGeneration.get(n) }

// SetGeneration stores what Generation reads.
func (n Inode) SetGeneration(v uint32) { inGeneration.put(n, v) }

// ObsoFaddr is i_obso_faddr: fragment address; not used.
func (n Inode) ObsoFaddr() uint32 { return inObsoFaddr.get(n) }

// SetObsoFaddr stores what ObsoFaddr reads.
func (n Inode) SetObsoFaddr(v uint32) { inObsoFaddr.put(n, v) }

// ChecksumLo is l_i_checksum_lo: checksum of the inode, low half.
func (n Inode) ChecksumLo() uint16 { return inChecksumLo.get(n) }

// SetChecksumLo stores what ChecksumLo reads.
func (n Inode) SetChecksumLo(v uint16) { inChecksumLo.put(n, v) }

// UID is the owner, 32 bits.
func (n Inode) UID() uint32 { return join16(inUIDLo.get(n), inUIDHigh.get(n)) }

// SetUID stores what UID reads.
func (n Inode) SetUID(v uint32) {
	inUIDLo.put(n, uint16(v))
	inUIDHigh.put(n, uint16(v>>16))
}

// GID is the group, 32 bits.
func (n Inode) GID() uint32 { return join16(inGIDLo.get(n), inGIDHigh.get(n)) }

// SetGID stores what GID reads.
func (n Inode) SetGID(v uint32) {
	inGIDLo.put(n, uint16(v))
	inGIDHigh.put(n, uint16(v>>16))
}

// Size is i_size in bytes, both halves. In a directory of a file system without
// large_dir the high half has another meaning; SizeLo then is the size.
func (n Inode) Size() uint64 { return join32(inSizeLo.get(n), inSizeHigh.get(n)) }

// SizeLo is the low half of i_size.
func (n Inode) SizeLo() uint32 { return inSizeLo.get(n) }

// SetSize stores what Size reads.
func (n Inode) SetSize(v uint64) {
	inSizeLo.put(n, uint32(v))
	inSizeHigh.put(n, uint32(v>>32))
}

// BlocksRaw is i_blocks as stored, 48 bits; Sectors says what it means.
func (n Inode) BlocksRaw() uint64 { return join48(inBlocksLo.get(n), inBlocksHigh.get(n)) }

// SetBlocksRaw stores what BlocksRaw reads.
func (n Inode) SetBlocksRaw(v uint64) {
	inBlocksLo.put(n, uint32(v))
	inBlocksHigh.put(n, uint16(v>>32))
}

// FileACL is i_file_acl, 48 bits: the block of the extended attributes; 0 for none.
func (n Inode) FileACL() Block { return Block(join48(inFileACLLo.get(n), inFileACLHigh.get(n))) }

// SetFileACL stores what FileACL reads.
func (n Inode) SetFileACL(v Block) {
	inFileACLLo.put(n, uint32(v))
	inFileACLHigh.put(n, uint16(v>>32))
}

// IBlock is the 60 bytes of i_block, to read or to write.
func (n Inode) IBlock() []byte { return inIBlock.of(n) }

// ExtraIsize is i_extra_isize: how many bytes of fields there are after the
// first 128. It is 0 for an inode of 128 bytes, and not checked against the size.
func (n Inode) ExtraIsize() uint16 {
	if len(n) < int(inExtraIsize)+2 {
		return 0
	}
	return inExtraIsize.get(n)
}

// SetExtraIsize stores what ExtraIsize reads.
func (n Inode) SetExtraIsize(v uint16) {
	if len(n) >= int(inExtraIsize)+2 {
		inExtraIsize.put(n, v)
	}
}

// ChecksumHi is i_checksum_hi: the high half of the checksum.
func (n Inode) ChecksumHi() uint16 {
	if !n.has(int(inChecksumHi) + 2) {
		return 0
	}
	return inChecksumHi.get(n)
}

// SetChecksumHi stores what ChecksumHi reads.
func (n Inode) SetChecksumHi(v uint16) {
	if n.has(int(inChecksumHi) + 2) {
		inChecksumHi.put(n, v)
	}
}

// VersionHi is i_version_hi: the high half of the change counter.
func (n Inode) VersionHi() uint32 { return n.extra32(inVersionHi) }

// SetVersionHi stores what VersionHi reads.
func (n Inode) SetVersionHi(v uint32) { n.putExtra32(inVersionHi, v) }

// Projid is i_projid: the project of the quota.
func (n Inode) Projid() uint32 { return n.extra32(inProjid) }

// SetProjid stores what Projid reads.
func (n Inode) SetProjid(v uint32) { n.putExtra32(inProjid, v) }

// Atime is the last access.
func (n Inode) Atime() Time { return n.time(inAtime, inAtimeExtra) }

// SetAtime stores what Atime reads, clamped to what the inode can hold.
func (n Inode) SetAtime(t Time) { n.putTime(inAtime, inAtimeExtra, t) }

// Ctime is the last change of the inode.
func (n Inode) Ctime() Time { return n.time(inCtime, inCtimeExtra) }

// SetCtime stores what Ctime reads, clamped to what the inode can hold.
func (n Inode) SetCtime(t Time) { n.putTime(inCtime, inCtimeExtra, t) }

// Mtime is the last change of the data.
func (n Inode) Mtime() Time { return n.time(inMtime, inMtimeExtra) }

// SetMtime stores what Mtime reads, clamped to what the inode can hold.
func (n Inode) SetMtime(t Time) { n.putTime(inMtime, inMtimeExtra, t) }

// Crtime is the creation; the zero Time if the inode has no room for it.
func (n Inode) Crtime() Time {
	if !n.has(int(inCrtime) + 4) {
		return Time{}
	}
	return n.time(inCrtime, inCrtimeExtra)
}

// SetCrtime stores what Crtime reads, clamped to what the inode can hold.
func (n Inode) SetCrtime(t Time) {
	if n.has(int(inCrtime) + 4) {
		n.putTime(inCrtime, inCrtimeExtra, t)
	}
}

// extra32 is a field after the first 128 bytes.
func (n Inode) extra32(field le32) uint32 {
	if !n.has(int(field) + 4) {
		return 0
	}
	return field.get(n)
}

// putExtra32 stores what extra32 reads.
func (n Inode) putExtra32(field le32, v uint32) {
	if n.has(int(field) + 4) {
		field.put(n, v)
	}
}

// join48 puts the two parts of a 48-bit number together.
func join48(lo uint32, hi uint16) uint64 { return uint64(hi)<<32 | uint64(lo) }
