package format

// join40 puts a time of the superblock together.
func join40(lo uint32, hi uint8) uint64 { return uint64(hi)<<32 | uint64(lo) }

// BlocksCount is s_blocks_count: the number of blocks.
func (s Superblock) BlocksCount() uint64 {
	return join32(sbBlocksCountLo.get(s), sbBlocksCountHi.get(s))
}

// SetBlocksCount stores what BlocksCount reads.
func (s Superblock) SetBlocksCount(v uint64) {
	sbBlocksCountLo.put(s, uint32(v))
	sbBlocksCountHi.put(s, uint32(v>>32))
}

// RBlocksCount is s_r_blocks_count: blocks reserved for DefResuid and DefResgid.
func (s Superblock) RBlocksCount() uint64 {
	return join32(sbRBlocksCountLo.get(s), sbRBlocksCountHi.get(s))
}

// SetRBlocksCount stores what RBlocksCount reads.
func (s Superblock) SetRBlocksCount(v uint64) {
	sbRBlocksCountLo.put(s, uint32(v))
	sbRBlocksCountHi.put(s, uint32(v>>32))
}

// FreeBlocksCount is s_free_blocks_count: free blocks, also with bigalloc.
func (s Superblock) FreeBlocksCount() uint64 {
	return join32(sbFreeBlocksCountLo.get(s), sbFreeBlocksCountHi.get(s))
}

// SetFreeBlocksCount stores what FreeBlocksCount reads.
func (s Superblock) SetFreeBlocksCount(v uint64) {
	sbFreeBlocksCountLo.put(s, uint32(v))
	sbFreeBlocksCountHi.put(s, uint32(v>>32))
}

// Mtime is s_mtime: the last mount, in seconds since 1970, 40 bits, unsigned.
func (s Superblock) Mtime() uint64 { return join40(sbMtimeLo.get(s), sbMtimeHi.get(s)) }

// SetMtime stores what Mtime reads.
func (s Superblock) SetMtime(v uint64) {
	sbMtimeLo.put(s, uint32(v))
	sbMtimeHi.put(s, uint8(v>>32))
}

// Wtime is s_wtime: the last write, in seconds since 1970, 40 bits, unsigned.
func (s Superblock) Wtime() uint64 { return join40(sbWtimeLo.get(s), sbWtimeHi.get(s)) }

// SetWtime stores what Wtime reads.
func (s Superblock) SetWtime(v uint64) {
	sbWtimeLo.put(s, uint32(v))
	sbWtimeHi.put(s, uint8(v>>32))
}

// Lastcheck is s_lastcheck: the last check, in seconds since 1970, 40 bits, unsigned.
func (s Superblock) Lastcheck() uint64 { return join40(sbLastcheckLo.get(s), sbLastcheckHi.get(s)) }

// SetLastcheck stores what Lastcheck reads.
func (s Superblock) SetLastcheck(v uint64) {
	sbLastcheckLo.put(s, uint32(v))
	sbLastcheckHi.put(s, uint8(v>>32))
}

// MkfsTime is s_mkfs_time: when it was made, in seconds since 1970, 40 bits, unsigned.
func (s Superblock) MkfsTime() uint64 { return join40(sbMkfsTimeLo.get(s), sbMkfsTimeHi.get(s)) }

// SetMkfsTime stores what MkfsTime reads.
func (s Superblock) SetMkfsTime(v uint64) {
	sbMkfsTimeLo.put(s, uint32(v))
	sbMkfsTimeHi.put(s, uint8(v>>32))
}

// FirstErrorTime is s_first_error_time: the first error, in seconds since 1970, 40 bits, unsigned.
func (s Superblock) FirstErrorTime() uint64 {
	return join40(sbFirstErrorTimeLo.get(s), sbFirstErrorTimeHi.get(s))
}

// SetFirstErrorTime stores what FirstErrorTime reads.
func (s Superblock) SetFirstErrorTime(v uint64) {
	sbFirstErrorTimeLo.put(s, uint32(v))
	sbFirstErrorTimeHi.put(s, uint8(v>>32))
}

// LastErrorTime is s_last_error_time: the last error, in seconds since 1970, 40 bits, unsigned.
func (s Superblock) LastErrorTime() uint64 {
	return join40(sbLastErrorTimeLo.get(s), sbLastErrorTimeHi.get(s))
}

// SetLastErrorTime stores what LastErrorTime reads.
func (s Superblock) SetLastErrorTime(v uint64) {
	sbLastErrorTimeLo.put(s, uint32(v))
	sbLastErrorTimeHi.put(s, uint8(v>>32))
}

// DefResuid is s_def_resuid: the user who may use the reserved blocks.
func (s Superblock) DefResuid() uint32 { return join16(sbDefResuidLo.get(s), sbDefResuidHi.get(s)) }

// SetDefResuid stores what DefResuid reads.
func (s Superblock) SetDefResuid(v uint32) {
	sbDefResuidLo.put(s, uint16(v))
	sbDefResuidHi.put(s, uint16(v>>16))
}

// DefResgid is s_def_resgid: the group that may use the reserved blocks.
func (s Superblock) DefResgid() uint32 { return join16(sbDefResgidLo.get(s), sbDefResgidHi.get(s)) }

// SetDefResgid stores what DefResgid reads.
func (s Superblock) SetDefResgid(v uint32) {
	sbDefResgidLo.put(s, uint16(v))
	sbDefResgidHi.put(s, uint16(v>>16))
}

// InodesCount is s_inodes_count: number of inodes, reserved ones included.
func (s Superblock) InodesCount() uint32 { return sbInodesCount.get(s) }

// SetInodesCount stores what InodesCount reads.
func (s Superblock) SetInodesCount(v uint32) { sbInodesCount.put(s, v) }

// FreeInodesCount is s_free_inodes_count: free inodes.
func (s Superblock) FreeInodesCount() uint32 { return sbFreeInodesCount.get(s) }

// SetFreeInodesCount stores what FreeInodesCount reads.
func (s Superblock) SetFreeInodesCount(v uint32) { sbFreeInodesCount.put(s, v) }

// FirstDataBlock is s_first_data_block: first block of group 0: 1 with 1 KiB blocks and no larger clusters, else 0.
func (s Superblock) FirstDataBlock() uint32 { return sbFirstDataBlock.get(s) }

// SetFirstDataBlock stores what FirstDataBlock reads.
func (s Superblock) SetFirstDataBlock(v uint32) { sbFirstDataBlock.put(s, v) }

// LogBlockSize is s_log_block_size: block size is 1024 << this.
func (s Superblock) LogBlockSize() uint32 { return sbLogBlockSize.get(s) }

// SetLogBlockSize stores what LogBlockSize reads.
func (s Superblock) SetLogBlockSize(v uint32) { sbLogBlockSize.put(s, v) }

// LogClusterSize is s_log_cluster_size: cluster size is 1024 << this; same as the block size without bigalloc.
func (s Superblock) LogClusterSize() uint32 { return sbLogClusterSize.get(s) }

// SetLogClusterSize stores what LogClusterSize reads.
func (s Superblock) SetLogClusterSize(v uint32) { sbLogClusterSize.put(s, v) }

// BlocksPerGroup is s_blocks_per_group: blocks of each group but the last.
func (s Superblock) BlocksPerGroup() uint32 { return sbBlocksPerGroup.get(s) }

// SetBlocksPerGroup stores what BlocksPerGroup reads.
func (s Superblock) SetBlocksPerGroup(v uint32) { sbBlocksPerGroup.put(s, v) }

// ClustersPerGroup is s_clusters_per_group: clusters of each group but the last.
func (s Superblock) ClustersPerGroup() uint32 { return sbClustersPerGroup.get(s) }

// SetClustersPerGroup stores what ClustersPerGroup reads.
func (s Superblock) SetClustersPerGroup(v uint32) { sbClustersPerGroup.put(s, v) }

// InodesPerGroup is s_inodes_per_group: inodes of each group.
func (s Superblock) InodesPerGroup() uint32 { return sbInodesPerGroup.get(s) }

// SetInodesPerGroup stores what InodesPerGroup reads.
func (s Superblock) SetInodesPerGroup(v uint32) { sbInodesPerGroup.put(s, v) }

// MntCount is s_mnt_count: mounts since the last check.
func (s Superblock) MntCount() uint16 { return sbMntCount.get(s) }

// SetMntCount stores what MntCount reads.
func (s Superblock) SetMntCount(v uint16) { sbMntCount.put(s, v) }

// MaxMntCount is s_max_mnt_count: mounts after which a check is due; 0 or 0xffff for never.
func (s Superblock) MaxMntCount() uint16 { return sbMaxMntCount.get(s) }

// SetMaxMntCount stores what MaxMntCount reads.
func (s Superblock) SetMaxMntCount(v uint16) { sbMaxMntCount.put(s, v) }

// Magic is s_magic: 0xef53.
func (s Superblock) Magic() uint16 { return sbMagic.get(s) }

// SetMagic stores what Magic reads.
func (s Superblock) SetMagic(v uint16) { sbMagic.put(s, v) }

// State is s_state: StateClean, StateErrors and StateOrphans bits.
func (s Superblock) State() uint16 { return sbState.get(s) }

// SetState stores what State reads.
func (s Superblock) SetState(v uint16) { sbState.put(s, v) }

// Errors is s_errors: what the kernel does on an error: ErrorsContinue, ErrorsRemountRO or ErrorsPanic.
func (s Superblock) Errors() uint16 { return sbErrors.get(s) }

// SetErrors stores what Errors reads.
func (s Superblock) SetErrors(v uint16) { sbErrors.put(s, v) }

// MinorRevLevel is s_minor_rev_level: minor revision, 0.
func (s Superblock) MinorRevLevel() uint16 { return sbMinorRevLevel.get(s) }

// SetMinorRevLevel stores what MinorRevLevel reads.
func (s Superblock) SetMinorRevLevel(v uint16) { sbMinorRevLevel.put(s, v) }

// CheckInterval is s_checkinterval: seconds after which a check is due; 0 for never.
func (s Superblock) CheckInterval() uint32 { return sbCheckInterval.get(s) }

// SetCheckInterval stores what CheckInterval reads.
func (s Superblock) SetCheckInterval(v uint32) { sbCheckInterval.put(s, v) }

// CreatorOS is s_creator_os: system that made it: 0 Linux, 1 Hurd, 2 Masix, 3 FreeBSD, 4 Lites.
func (s Superblock) CreatorOS() uint32 { return sbCreatorOS.get(s) }

// SetCreatorOS stores what CreatorOS reads.
func (s Superblock) SetCreatorOS(v uint32) { sbCreatorOS.put(s, v) }

// RevLevel is s_rev_level: revision: RevGoodOld or RevDynamic.
func (s Superblock) RevLevel() uint32 { return sbRevLevel.get(s) }

// SetRevLevel stores what RevLevel reads.
func (s Superblock) SetRevLevel(v uint32) { sbRevLevel.put(s, v) }

// FirstIno is s_first_ino: first inode that is not reserved.
func (s Superblock) FirstIno() uint32 { return sbFirstIno.get(s) }

// SetFirstIno stores what FirstIno reads.
func (s Superblock) SetFirstIno(v uint32) { sbFirstIno.put(s, v) }

// InodeSize is s_inode_size: bytes of an inode record.
func (s Superblock) InodeSize() uint16 { return sbInodeSize.get(s) }

// SetInodeSize stores what InodeSize reads.
func (s Superblock) SetInodeSize(v uint16) { sbInodeSize.put(s, v) }

// BlockGroupNr is s_block_group_nr: group that holds this copy of the superblock, low 16 bits.
func (s Superblock) BlockGroupNr() uint16 { return sbBlockGroupNr.get(s) }

// SetBlockGroupNr stores what BlockGroupNr reads.
func (s Superblock) SetBlockGroupNr(v uint16) { sbBlockGroupNr.put(s, v) }

// FeatureCompat is s_feature_compat: compatible features.
func (s Superblock) FeatureCompat() Compat { return Compat(sbFeatureCompat.get(s)) }

// SetFeatureCompat stores what FeatureCompat reads.
func (s Superblock) SetFeatureCompat(v Compat) { sbFeatureCompat.put(s, uint32(v)) }

// FeatureIncompat is s_feature_incompat: incompatible features.
func (s Superblock) FeatureIncompat() Incompat { return Incompat(sbFeatureIncompat.get(s)) }

// SetFeatureIncompat stores what FeatureIncompat reads.
func (s Superblock) SetFeatureIncompat(v Incompat) { sbFeatureIncompat.put(s, uint32(v)) }

// FeatureROCompat is s_feature_ro_compat: read-only compatible features.
func (s Superblock) FeatureROCompat() ROCompat { return ROCompat(sbFeatureROCompat.get(s)) }

// SetFeatureROCompat stores what FeatureROCompat reads.
func (s Superblock) SetFeatureROCompat(v ROCompat) { sbFeatureROCompat.put(s, uint32(v)) }

// UUID is s_uuid: UUID of the file system.
func (s Superblock) UUID() [16]byte { return sbUUID.get(s) }

// SetUUID stores what UUID reads.
func (s Superblock) SetUUID(v [16]byte) { sbUUID.put(s, v) }

// VolumeName is s_volume_name: label, NUL-padded.
func (s Superblock) VolumeName() string { return text(sbVolumeName.of(s)) }

// SetVolumeName stores what VolumeName reads, cut off at 16 bytes.
func (s Superblock) SetVolumeName(v string) { putText(sbVolumeName.of(s), v) }

// LastMounted is s_last_mounted: directory where it was last mounted, NUL-padded.
func (s Superblock) LastMounted() string { return text(sbLastMounted.of(s)) }

// SetLastMounted stores what LastMounted reads, cut off at 64 bytes.
func (s Superblock) SetLastMounted(v string) { putText(sbLastMounted.of(s), v) }

// AlgorithmUsageBitmap is s_algorithm_usage_bitmap: compression algorithms; not used.
func (s Superblock) AlgorithmUsageBitmap() uint32 { return sbAlgorithmUsageBitmap.get(s) }

// SetAlgorithmUsageBitmap stores what AlgorithmUsageBitmap reads.
func (s Superblock) SetAlgorithmUsageBitmap(v uint32) { sbAlgorithmUsageBitmap.put(s, v) }

// PreallocBlocks is s_prealloc_blocks: blocks to preallocate for a file; not used.
func (s Superblock) PreallocBlocks() uint8 { return sbPreallocBlocks.get(s) }

// SetPreallocBlocks stores what PreallocBlocks reads.
func (s Superblock) SetPreallocBlocks(v uint8) { sbPreallocBlocks.put(s, v) }

// PreallocDirBlocks is s_prealloc_dir_blocks: blocks to preallocate for a directory; not used.
func (s Superblock) PreallocDirBlocks() uint8 { return sbPreallocDirBlocks.get(s) }

// SetPreallocDirBlocks stores what PreallocDirBlocks reads.
func (s Superblock) SetPreallocDirBlocks(v uint8) { sbPreallocDirBlocks.put(s, v) }

// ReservedGDTBlocks is s_reserved_gdt_blocks: blocks after each descriptor table kept free for its growth.
func (s Superblock) ReservedGDTBlocks() uint16 { return sbReservedGDTBlocks.get(s) }

// SetReservedGDTBlocks stores what ReservedGDTBlocks reads.
func (s Superblock) SetReservedGDTBlocks(v uint16) { sbReservedGDTBlocks.put(s, v) }

// JournalUUID is s_journal_uuid: UUID of the external journal.
func (s Superblock) JournalUUID() [16]byte { return sbJournalUUID.get(s) }

// SetJournalUUID stores what JournalUUID reads.
func (s Superblock) SetJournalUUID(v [16]byte) { sbJournalUUID.put(s, v) }

// JournalInum is s_journal_inum: inode of the journal.
func (s Superblock) JournalInum() uint32 { return sbJournalInum.get(s) }

// SetJournalInum stores what JournalInum reads.
func (s Superblock) SetJournalInum(v uint32) { sbJournalInum.put(s, v) }

// JournalDev is s_journal_dev: device number of the external journal.
func (s Superblock) JournalDev() uint32 { return sbJournalDev.get(s) }

// SetJournalDev stores what JournalDev reads.
func (s Superblock) SetJournalDev(v uint32) { sbJournalDev.put(s, v) }

// LastOrphan is s_last_orphan: first inode of the list of inodes to delete or truncate; 0 for none.
func (s Superblock) LastOrphan() uint32 { return sbLastOrphan.get(s) }

// SetLastOrphan stores what LastOrphan reads.
func (s Superblock) SetLastOrphan(v uint32) { sbLastOrphan.put(s, v) }

// HashSeed is s_hash_seed: seed of the directory hash.
func (s Superblock) HashSeed() [16]byte { return sbHashSeed.get(s) }

// SetHashSeed stores what HashSeed reads.
func (s Superblock) SetHashSeed(v [16]byte) { sbHashSeed.put(s, v) }

// DefHashVersion is s_def_hash_version: hash of new indexed directories.
func (s Superblock) DefHashVersion() uint8 { return sbDefHashVersion.get(s) }

// SetDefHashVersion stores what DefHashVersion reads.
func (s Superblock) SetDefHashVersion(v uint8) { sbDefHashVersion.put(s, v) }

// JnlBackupType is s_jnl_backup_type: 1 when JnlBlocks is valid.
func (s Superblock) JnlBackupType() uint8 { return sbJnlBackupType.get(s) }

// SetJnlBackupType stores what JnlBackupType reads.
func (s Superblock) SetJnlBackupType(v uint8) { sbJnlBackupType.put(s, v) }

// DescSize is s_desc_size: bytes of a group descriptor, when 64bit is set.
func (s Superblock) DescSize() uint16 { return sbDescSize.get(s) }

// SetDescSize stores what DescSize reads.
func (s Superblock) SetDescSize(v uint16) { sbDescSize.put(s, v) }

// DefaultMountOpts is s_default_mount_opts: default mount options.
func (s Superblock) DefaultMountOpts() uint32 { return sbDefaultMountOpts.get(s) }

// SetDefaultMountOpts stores what DefaultMountOpts reads.
func (s Superblock) SetDefaultMountOpts(v uint32) { sbDefaultMountOpts.put(s, v) }

// FirstMetaBg is s_first_meta_bg: first metagroup laid out by meta_bg.
func (s Superblock) FirstMetaBg() uint32 { return sbFirstMetaBg.get(s) }

// SetFirstMetaBg stores what FirstMetaBg reads.
func (s Superblock) SetFirstMetaBg(v uint32) { sbFirstMetaBg.put(s, v) }

// MinExtraIsize is s_min_extra_isize: extra bytes that every inode has.
func (s Superblock) MinExtraIsize() uint16 { return sbMinExtraIsize.get(s) }

// SetMinExtraIsize stores what MinExtraIsize reads.
func (s Superblock) SetMinExtraIsize(v uint16) { sbMinExtraIsize.put(s, v) }

// WantExtraIsize is s_want_extra_isize: extra bytes that new inodes should have.
func (s Superblock) WantExtraIsize() uint16 { return sbWantExtraIsize.get(s) }

// SetWantExtraIsize stores what WantExtraIsize reads.
func (s Superblock) SetWantExtraIsize(v uint16) { sbWantExtraIsize.put(s, v) }

// Flags is s_flags: FlagSignedHash, FlagUnsignedHash, FlagTestFilesys.
func (s Superblock) Flags() uint32 { return sbFlags.get(s) }

// SetFlags stores what Flags reads.
func (s Superblock) SetFlags(v uint32) { sbFlags.put(s, v) }

// RaidStride is s_raid_stride: blocks per disk before the next disk.
func (s Superblock) RaidStride() uint16 { return sbRaidStride.get(s) }

// SetRaidStride stores what RaidStride reads.
func (s Superblock) SetRaidStride(v uint16) { sbRaidStride.put(s, v) }

// MMPInterval is s_mmp_interval: seconds between updates of the MMP block.
func (s Superblock) MMPInterval() uint16 { return sbMMPInterval.get(s) }

// SetMMPInterval stores what MMPInterval reads.
func (s Superblock) SetMMPInterval(v uint16) { sbMMPInterval.put(s, v) }

// MMPBlock is s_mmp_block: block of the multiple mount protection.
func (s Superblock) MMPBlock() uint64 { return sbMMPBlock.get(s) }

// SetMMPBlock stores what MMPBlock reads.
func (s Superblock) SetMMPBlock(v uint64) { sbMMPBlock.put(s, v) }

// RaidStripeWidth is s_raid_stripe_width: blocks of a stripe over all data disks.
func (s Superblock) RaidStripeWidth() uint32 { return sbRaidStripeWidth.get(s) }

// SetRaidStripeWidth stores what RaidStripeWidth reads.
func (s Superblock) SetRaidStripeWidth(v uint32) { sbRaidStripeWidth.put(s, v) }

// LogGroupsPerFlex is s_log_groups_per_flex: a flex group is 1 << this groups.
func (s Superblock) LogGroupsPerFlex() uint8 { return sbLogGroupsPerFlex.get(s) }

// SetLogGroupsPerFlex stores what LogGroupsPerFlex reads.
func (s Superblock) SetLogGroupsPerFlex(v uint8) { sbLogGroupsPerFlex.put(s, v) }

// ChecksumType is s_checksum_type: checksum algorithm; 1, crc32c, is the only one.
func (s Superblock) ChecksumType() uint8 { return sbChecksumType.get(s) }

// SetChecksumType stores what ChecksumType reads.
func (s Superblock) SetChecksumType(v uint8) { sbChecksumType.put(s, v) }

// EncryptionLevel is s_encryption_level: version of the encryption; 0.
func (s Superblock) EncryptionLevel() uint8 { return sbEncryptionLevel.get(s) }

// SetEncryptionLevel stores what EncryptionLevel reads.
func (s Superblock) SetEncryptionLevel(v uint8) { sbEncryptionLevel.put(s, v) }

// ReservedPad is s_reserved_pad: padding.
func (s Superblock) ReservedPad() uint8 { return sbReservedPad.get(s) }

// SetReservedPad stores what ReservedPad reads.
func (s Superblock) SetReservedPad(v uint8) { sbReservedPad.put(s, v) }

// KbytesWritten is s_kbytes_written: KiB written in its lifetime.
func (s Superblock) KbytesWritten() uint64 { return sbKbytesWritten.get(s) }

// SetKbytesWritten stores what KbytesWritten reads.
func (s Superblock) SetKbytesWritten(v uint64) { sbKbytesWritten.put(s, v) }

// SnapshotInum is s_snapshot_inum: inode of the active snapshot; not used.
func (s Superblock) SnapshotInum() uint32 { return sbSnapshotInum.get(s) }

// SetSnapshotInum stores what SnapshotInum reads.
func (s Superblock) SetSnapshotInum(v uint32) { sbSnapshotInum.put(s, v) }

// SnapshotID is s_snapshot_id: number of the active snapshot; not used.
func (s Superblock) SnapshotID() uint32 { return sbSnapshotID.get(s) }

// SetSnapshotID stores what SnapshotID reads.
func (s Superblock) SetSnapshotID(v uint32) { sbSnapshotID.put(s, v) }

// SnapshotRBlocksCount is s_snapshot_r_blocks_count: blocks reserved for the snapshot; not used.
func (s Superblock) SnapshotRBlocksCount() uint64 { return sbSnapshotRBlocksCount.get(s) }

// SetSnapshotRBlocksCount stores what SnapshotRBlocksCount reads.
func (s Superblock) SetSnapshotRBlocksCount(v uint64) { sbSnapshotRBlocksCount.put(s, v) }

// SnapshotList is s_snapshot_list: first inode of the list of snapshots; not used.
func (s Superblock) SnapshotList() uint32 { return sbSnapshotList.get(s) }

// SetSnapshotList stores what SnapshotList reads.
func (s Superblock) SetSnapshotList(v uint32) { sbSnapshotList.put(s, v) }

// ErrorCount is s_error_count: errors since the last check.
func (s Superblock) ErrorCount() uint32 { return sbErrorCount.get(s) }

// SetErrorCount stores what ErrorCount reads.
func (s Superblock) SetErrorCount(v uint32) { sbErrorCount.put(s, v) }

// FirstErrorIno is s_first_error_ino: inode of the first error.
func (s Superblock) FirstErrorIno() uint32 { return sbFirstErrorIno.get(s) }

// SetFirstErrorIno stores what FirstErrorIno reads.
func (s Superblock) SetFirstErrorIno(v uint32) { sbFirstErrorIno.put(s, v) }

// FirstErrorBlock is s_first_error_block: block of the first error.
func (s Superblock) FirstErrorBlock() uint64 { return sbFirstErrorBlock.get(s) }

// SetFirstErrorBlock stores what FirstErrorBlock reads.
func (s Superblock) SetFirstErrorBlock(v uint64) { sbFirstErrorBlock.put(s, v) }

// FirstErrorFunc is s_first_error_func: kernel function of the first error, NUL-padded.
func (s Superblock) FirstErrorFunc() string { return text(sbFirstErrorFunc.of(s)) }

// SetFirstErrorFunc stores what FirstErrorFunc reads, cut off at 32 bytes.
func (s Superblock) SetFirstErrorFunc(v string) { putText(sbFirstErrorFunc.of(s), v) }

// FirstErrorLine is s_first_error_line: source line of the first error.
func (s Superblock) FirstErrorLine() uint32 { return sbFirstErrorLine.get(s) }

// SetFirstErrorLine stores what FirstErrorLine reads.
func (s Superblock) SetFirstErrorLine(v uint32) { sbFirstErrorLine.put(s, v) }

// LastErrorIno is s_last_error_ino: inode of the last error.
func (s Superblock) LastErrorIno() uint32 { return sbLastErrorIno.get(s) }

// SetLastErrorIno stores what LastErrorIno reads.
func (s Superblock) SetLastErrorIno(v uint32) { sbLastErrorIno.put(s, v) }

// LastErrorLine is s_last_error_line: source line of the last error.
func (s Superblock) LastErrorLine() uint32 { return sbLastErrorLine.get(s) }

// SetLastErrorLine stores what LastErrorLine reads.
func (s Superblock) SetLastErrorLine(v uint32) { sbLastErrorLine.put(s, v) }

// LastErrorBlock is s_last_error_block: block of the last error.
func (s Superblock) LastErrorBlock() uint64 { return sbLastErrorBlock.get(s) }

// SetLastErrorBlock stores what LastErrorBlock reads.
func (s Superblock) SetLastErrorBlock(v uint64) { sbLastErrorBlock.put(s, v) }

// LastErrorFunc is s_last_error_func: kernel function of the last error, NUL-padded.
func (s Superblock) LastErrorFunc() string { return text(sbLastErrorFunc.of(s)) }

// SetLastErrorFunc stores what LastErrorFunc reads, cut off at 32 bytes.
func (s Superblock) SetLastErrorFunc(v string) { putText(sbLastErrorFunc.of(s), v) }

// MountOpts is s_mount_opts: default mount options as text, NUL-padded.
func (s Superblock) MountOpts() string { return text(sbMountOpts.of(s)) }

// SetMountOpts stores what MountOpts reads, cut off at 64 bytes.
func (s Superblock) SetMountOpts(v string) { putText(sbMountOpts.of(s), v) }

// UsrQuotaInum is s_usr_quota_inum: inode of the user quota.
func (s Superblock) UsrQuotaInum() uint32 { return sbUsrQuotaInum.get(s) }

// SetUsrQuotaInum stores what UsrQuotaInum reads.
func (s Superblock) SetUsrQuotaInum(v uint32) { sbUsrQuotaInum.put(s, v) }

// GrpQuotaInum is s_grp_quota_inum: inode of the group quota.
func (s Superblock) GrpQuotaInum() uint32 { return sbGrpQuotaInum.get(s) }

// SetGrpQuotaInum stores what GrpQuotaInum reads.
func (s Superblock) SetGrpQuotaInum(v uint32) { sbGrpQuotaInum.put(s, v) }

// OverheadBlocks is s_overhead_clusters: clusters of metadata that no file can use; 0 when not computed.
func (s Superblock) OverheadBlocks() uint32 { return sbOverheadBlocks.get(s) }

// SetOverheadBlocks stores what OverheadBlocks reads.
func (s Superblock) SetOverheadBlocks(v uint32) { sbOverheadBlocks.put(s, v) }

// EncryptAlgos is s_encrypt_algos: encryption algorithms in use.
func (s Superblock) EncryptAlgos() [4]byte { return sbEncryptAlgos.get(s) }

// SetEncryptAlgos stores what EncryptAlgos reads.
func (s Superblock) SetEncryptAlgos(v [4]byte) { sbEncryptAlgos.put(s, v) }

// EncryptPwSalt is s_encrypt_pw_salt: salt of the key derivation.
func (s Superblock) EncryptPwSalt() [16]byte { return sbEncryptPwSalt.get(s) }

// SetEncryptPwSalt stores what EncryptPwSalt reads.
func (s Superblock) SetEncryptPwSalt(v [16]byte) { sbEncryptPwSalt.put(s, v) }

// LpfIno is s_lpf_ino: inode of lost+found; 0 when not recorded.
func (s Superblock) LpfIno() uint32 { return sbLpfIno.get(s) }

// SetLpfIno stores what LpfIno reads.
func (s Superblock) SetLpfIno(v uint32) { sbLpfIno.put(s, v) }

// PrjQuotaInum is s_prj_quota_inum: inode of the project quota.
func (s Superblock) PrjQuotaInum() uint32 { return sbPrjQuotaInum.get(s) }

// SetPrjQuotaInum stores what PrjQuotaInum reads.
func (s Superblock) SetPrjQuotaInum(v uint32) { sbPrjQuotaInum.put(s, v) }

// ChecksumSeed is s_checksum_seed: seed of all checksums, with metadata_csum_seed.
func (s Superblock) ChecksumSeed() uint32 { return sbChecksumSeed.get(s) }

// SetChecksumSeed stores what ChecksumSeed reads.
func (s Superblock) SetChecksumSeed(v uint32) { sbChecksumSeed.put(s, v) }

// FirstErrorErrcode is s_first_error_errcode: kind of the first error.
func (s Superblock) FirstErrorErrcode() uint8 { return sbFirstErrorErrcode.get(s) }

// SetFirstErrorErrcode stores what FirstErrorErrcode reads.
func (s Superblock) SetFirstErrorErrcode(v uint8) { sbFirstErrorErrcode.put(s, v) }

// LastErrorErrcode is s_last_error_errcode: kind of the last error.
func (s Superblock) LastErrorErrcode() uint8 { return sbLastErrorErrcode.get(s) }

// SetLastErrorErrcode stores what LastErrorErrcode reads.
func (s Superblock) SetLastErrorErrcode(v uint8) { sbLastErrorErrcode.put(s, v) }

// Encoding is s_encoding: character set of names, with casefold.
func (s Superblock) Encoding() uint16 { return sbEncoding.get(s) }

// SetEncoding stores what Encoding reads.
func (s Superblock) SetEncoding(v uint16) { sbEncoding.put(s, v) }

// EncodingFlags is s_encoding_flags: flags of the character set.
func (s Superblock) EncodingFlags() uint16 { return sbEncodingFlags.get(s) }

// SetEncodingFlags stores what EncodingFlags reads.
func (s Superblock) SetEncodingFlags(v uint16) { sbEncodingFlags.put(s, v) }

// OrphanFileInum is s_orphan_file_inum: inode of the orphan file.
func (s Superblock) OrphanFileInum() uint32 { return sbOrphanFileInum.get(s) }

// SetOrphanFileInum stores what OrphanFileInum reads.
func (s Superblock) SetOrphanFileInum(v uint32) { sbOrphanFileInum.put(s, v) }

// Checksum is s_checksum: crc32c of the 1020 bytes before it.
func (s Superblock) Checksum() uint32 { return sbChecksum.get(s) }

// SetChecksum stores what Checksum reads.
func (s Superblock) SetChecksum(v uint32) { sbChecksum.put(s, v) }

// JnlBlocks is s_jnl_blocks: a backup of the journal inode, in [0] to [14] its
// i_block, in [15] its i_size_high, in [16] its i_size.
func (s Superblock) JnlBlocks() (v [17]uint32) {
	for i := range v {
		v[i] = le32(4 * i).get(sbJnlBlocks.of(s))
	}
	return v
}

// SetJnlBlocks stores what JnlBlocks reads.
func (s Superblock) SetJnlBlocks(v [17]uint32) {
	for i := range v {
		le32(4*i).put(sbJnlBlocks.of(s), v[i])
	}
}

// BackupBGs is s_backup_bgs: the groups that hold a backup with sparse_super2; 0 for none.
func (s Superblock) BackupBGs() [2]uint32 {
	b := sbBackupBGs.of(s)
	return [2]uint32{le32(0).get(b), le32(4).get(b)}
}

// SetBackupBGs stores what BackupBGs reads.
func (s Superblock) SetBackupBGs(v [2]uint32) {
	b := sbBackupBGs.of(s)
	le32(0).put(b, v[0])
	le32(4).put(b, v[1])
}
