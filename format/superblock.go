package format

// Place and size of the primary superblock, in bytes from the start of the file
// system, whatever its block size.
const (
	SuperblockOffset = 1024
	SuperblockSize   = 1024
)

// Superblock is a view over the SuperblockSize bytes of a superblock. Getters
// and setters panic on fewer bytes; ValidateSuperblock checks the length. All
// fields are little-endian. Source: kernel doc: ext4/super.rst.
type Superblock []byte

// SuperMagic is the value of s_magic.
const SuperMagic = 0xef53

// Bits of s_state.
const (
	StateClean    = 1    // unmounted cleanly
	StateErrors   = 2    // the kernel found errors; a check is due
	StateOrphans  = 4    // orphans are being processed
	StateFCReplay = 0x20 // fast commits are being replayed
)

// Values of s_errors.
const (
	ErrorsContinue  = 1
	ErrorsRemountRO = 2
	ErrorsPanic     = 3
)

// Bits of s_default_mount_opts.
const (
	DefaultMountDebug         = 0x1
	DefaultMountBSDGroups     = 0x2
	DefaultMountUserXattr     = 0x4
	DefaultMountACL           = 0x8
	DefaultMountUID16         = 0x10
	DefaultMountJournalData   = 0x20
	DefaultMountOrdered       = 0x40
	DefaultMountWriteback     = 0x60 // both bits
	DefaultMountNoBarrier     = 0x100
	DefaultMountBlockValidity = 0x200
	DefaultMountDiscard       = 0x400
	DefaultMountNoDelalloc    = 0x800
)

// MaxMntCountNever is the value of s_max_mnt_count that makes no check due.
const MaxMntCountNever = 0xffff

// Values of s_rev_level.
const (
	RevGoodOld = 0 // fixed inode size and first inode
	RevDynamic = 1
)

// Values of s_creator_os.
const (
	CreatorLinux = 0
	CreatorHurd  = 1
)

// Bits of s_flags. The first two say which directory hash applies.
const (
	FlagSignedHash   = 1
	FlagUnsignedHash = 2
	FlagTestFilesys  = 4
)

// ChecksumCRC32C is the only value of s_checksum_type.
const ChecksumCRC32C = 1

// JnlBackupBlocks is the value of s_jnl_backup_type that makes s_jnl_blocks valid.
const JnlBackupBlocks = 1

// Inodes with a fixed number.
const (
	BadBlocksIno        Ino = 1
	RootIno             Ino = 2
	UsrQuotaIno         Ino = 3
	GrpQuotaIno         Ino = 4
	BootLoaderIno       Ino = 5
	UndeleteDirIno      Ino = 6
	ResizeIno           Ino = 7
	JournalIno          Ino = 8
	ExcludeIno          Ino = 9
	ReplicaIno          Ino = 10
	FirstNonReservedIno Ino = 11 // unless s_first_ino says otherwise
)

// Offsets of the fields; SPEC.md says what each means.
const (
	sbInodesCount          le32    = 0x00  // s_inodes_count
	sbBlocksCountLo        le32    = 0x04  // s_blocks_count_lo
	sbRBlocksCountLo       le32    = 0x08  // s_r_blocks_count_lo
	sbFreeBlocksCountLo    le32    = 0x0c  // s_free_blocks_count_lo
	sbFreeInodesCount      le32    = 0x10  // s_free_inodes_count
	sbFirstDataBlock       le32    = 0x14  // s_first_data_block
	sbLogBlockSize         le32    = 0x18  // s_log_block_size
	sbLogClusterSize       le32    = 0x1c  // s_log_cluster_size
	sbBlocksPerGroup       le32    = 0x20  // s_blocks_per_group
	sbClustersPerGroup     le32    = 0x24  // s_clusters_per_group
	sbInodesPerGroup       le32    = 0x28  // s_inodes_per_group
	sbMtimeLo              le32    = 0x2c  // s_mtime
	sbWtimeLo              le32    = 0x30  // s_wtime
	sbMntCount             le16    = 0x34  // s_mnt_count
	sbMaxMntCount          le16    = 0x36  // s_max_mnt_count
	sbMagic                le16    = 0x38  // s_magic
	sbState                le16    = 0x3a  // s_state
	sbErrors               le16    = 0x3c  // s_errors
	sbMinorRevLevel        le16    = 0x3e  // s_minor_rev_level
	sbLastcheckLo          le32    = 0x40  // s_lastcheck
	sbCheckInterval        le32    = 0x44  // s_checkinterval
	sbCreatorOS            le32    = 0x48  // s_creator_os
	sbRevLevel             le32    = 0x4c  // s_rev_level
	sbDefResuidLo          le16    = 0x50  // s_def_resuid
	sbDefResgidLo          le16    = 0x52  // s_def_resgid
	sbFirstIno             le32    = 0x54  // s_first_ino
	sbInodeSize            le16    = 0x58  // s_inode_size
	sbBlockGroupNr         le16    = 0x5a  // s_block_group_nr
	sbFeatureCompat        le32    = 0x5c  // s_feature_compat
	sbFeatureIncompat      le32    = 0x60  // s_feature_incompat
	sbFeatureROCompat      le32    = 0x64  // s_feature_ro_compat
	sbUUID                 bytes16 = 0x68  // s_uuid
	sbVolumeName           bytes16 = 0x78  // s_volume_name
	sbLastMounted          bytes64 = 0x88  // s_last_mounted
	sbAlgorithmUsageBitmap le32    = 0xc8  // s_algorithm_usage_bitmap
	sbPreallocBlocks       u8      = 0xcc  // s_prealloc_blocks
	sbPreallocDirBlocks    u8      = 0xcd  // s_prealloc_dir_blocks
	sbReservedGDTBlocks    le16    = 0xce  // s_reserved_gdt_blocks
	sbJournalUUID          bytes16 = 0xd0  // s_journal_uuid
	sbJournalInum          le32    = 0xe0  // s_journal_inum
	sbJournalDev           le32    = 0xe4  // s_journal_dev
	sbLastOrphan           le32    = 0xe8  // s_last_orphan
	sbHashSeed             bytes16 = 0xec  // s_hash_seed
	sbDefHashVersion       u8      = 0xfc  // s_def_hash_version
	sbJnlBackupType        u8      = 0xfd  // s_jnl_backup_type
	sbDescSize             le16    = 0xfe  // s_desc_size
	sbDefaultMountOpts     le32    = 0x100 // s_default_mount_opts
	sbFirstMetaBg          le32    = 0x104 // s_first_meta_bg
	sbMkfsTimeLo           le32    = 0x108 // s_mkfs_time
	sbJnlBlocks            bytes68 = 0x10c // s_jnl_blocks
	sbBlocksCountHi        le32    = 0x150 // s_blocks_count_hi
	sbRBlocksCountHi       le32    = 0x154 // s_r_blocks_count_hi
	sbFreeBlocksCountHi    le32    = 0x158 // s_free_blocks_count_hi
	sbMinExtraIsize        le16    = 0x15c // s_min_extra_isize
	sbWantExtraIsize       le16    = 0x15e // s_want_extra_isize
	sbFlags                le32    = 0x160 // s_flags
	sbRaidStride           le16    = 0x164 // s_raid_stride
	sbMMPInterval          le16    = 0x166 // s_mmp_interval
	sbMMPBlock             le64    = 0x168 // s_mmp_block
	sbRaidStripeWidth      le32    = 0x170 // s_raid_stripe_width
	sbLogGroupsPerFlex     u8      = 0x174 // s_log_groups_per_flex
	sbChecksumType         u8      = 0x175 // s_checksum_type
	sbEncryptionLevel      u8      = 0x176 // s_encryption_level
	sbReservedPad          u8      = 0x177 // s_reserved_pad
	sbKbytesWritten        le64    = 0x178 // s_kbytes_written
	sbSnapshotInum         le32    = 0x180 // s_snapshot_inum
	sbSnapshotID           le32    = 0x184 // s_snapshot_id
	sbSnapshotRBlocksCount le64    = 0x188 // s_snapshot_r_blocks_count
	sbSnapshotList         le32    = 0x190 // s_snapshot_list
	sbErrorCount           le32    = 0x194 // s_error_count
	sbFirstErrorTimeLo     le32    = 0x198 // s_first_error_time
	sbFirstErrorIno        le32    = 0x19c // s_first_error_ino
	sbFirstErrorBlock      le64    = 0x1a0 // s_first_error_block
	sbFirstErrorFunc       bytes32 = 0x1a8 // s_first_error_func
	sbFirstErrorLine       le32    = 0x1c8 // s_first_error_line
	sbLastErrorTimeLo      le32    = 0x1cc // s_last_error_time
	sbLastErrorIno         le32    = 0x1d0 // s_last_error_ino
	sbLastErrorLine        le32    = 0x1d4 // s_last_error_line
	sbLastErrorBlock       le64    = 0x1d8 // s_last_error_block
	sbLastErrorFunc        bytes32 = 0x1e0 // s_last_error_func
	sbMountOpts            bytes64 = 0x200 // s_mount_opts
	sbUsrQuotaInum         le32    = 0x240 // s_usr_quota_inum
	sbGrpQuotaInum         le32    = 0x244 // s_grp_quota_inum
	sbOverheadBlocks       le32    = 0x248 // s_overhead_clusters
	sbBackupBGs            bytes8  = 0x24c // s_backup_bgs
	sbEncryptAlgos         bytes4  = 0x254 // s_encrypt_algos
	sbEncryptPwSalt        bytes16 = 0x258 // s_encrypt_pw_salt
	sbLpfIno               le32    = 0x268 // s_lpf_ino
	sbPrjQuotaInum         le32    = 0x26c // s_prj_quota_inum
	sbChecksumSeed         le32    = 0x270 // s_checksum_seed
	sbWtimeHi              u8      = 0x274 // s_wtime_hi
	sbMtimeHi              u8      = 0x275 // s_mtime_hi
	sbMkfsTimeHi           u8      = 0x276 // s_mkfs_time_hi
	sbLastcheckHi          u8      = 0x277 // s_lastcheck_hi
	sbFirstErrorTimeHi     u8      = 0x278 // s_first_error_time_hi
	sbLastErrorTimeHi      u8      = 0x279 // s_last_error_time_hi
	sbFirstErrorErrcode    u8      = 0x27a // s_first_error_errcode
	sbLastErrorErrcode     u8      = 0x27b // s_last_error_errcode
	sbEncoding             le16    = 0x27c // s_encoding
	sbEncodingFlags        le16    = 0x27e // s_encoding_flags
	sbOrphanFileInum       le32    = 0x280 // s_orphan_file_inum
	sbDefResuidHi          le16    = 0x284 // s_def_resuid_hi
	sbDefResgidHi          le16    = 0x286 // s_def_resgid_hi
	sbChecksum             le32    = 0x3fc // s_checksum
)

// Block size limits: 1024 << 0 to 1024 << 6.
const (
	minLogBlockSize = 10
	maxLogBlockSize = 16
)

// BlockSize is the block size in bytes, or 0 if s_log_block_size is out of range.
func (s Superblock) BlockSize() int {
	if s.LogBlockSize() > maxLogBlockSize-minLogBlockSize {
		return 0
	}
	return 1 << (minLogBlockSize + s.LogBlockSize())
}

// Features is the set of all feature bits.
func (s Superblock) Features() Features {
	return Features{s.FeatureCompat(), s.FeatureIncompat(), s.FeatureROCompat()}
}

// SetFeatures stores all feature bits.
func (s Superblock) SetFeatures(f Features) {
	s.SetFeatureCompat(f.Compat)
	s.SetFeatureIncompat(f.Incompat)
	s.SetFeatureROCompat(f.ROCompat)
}

// ValidateSuperblock checks that b is the superblock of a file system whose
// geometry makes sense (see CheckGeometry). It looks at neither the checksum
// nor at whether the features are supported. Errors are DamagedError or
// UnsupportedError.
func ValidateSuperblock(b []byte) error {
	if len(b) < SuperblockSize {
		return superError(0, "%d bytes, want %d", len(b), SuperblockSize)
	}
	if s := Superblock(b); s.Magic() != SuperMagic {
		return superError(int(sbMagic), "s_magic is %#x, want %#x", s.Magic(), SuperMagic)
	}
	return CheckGeometry(b)
}
