package format

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// superPlaces is where the fields of a superblock lie, by the kernel's documentation.
const superPlaces = `
	InodesCount 0:4
	BlocksCount 4:4 150:4
	RBlocksCount 8:4 154:4
	FreeBlocksCount c:4 158:4
	FreeInodesCount 10:4
	FirstDataBlock 14:4
	LogBlockSize 18:4
	LogClusterSize 1c:4
	BlocksPerGroup 20:4
	ClustersPerGroup 24:4
	InodesPerGroup 28:4
	Mtime 2c:4 275:1
	Wtime 30:4 274:1
	MntCount 34:2
	MaxMntCount 36:2
	Magic 38:2
	State 3a:2
	Errors 3c:2
	MinorRevLevel 3e:2
	Lastcheck 40:4 277:1
	CheckInterval 44:4
	CreatorOS 48:4
	RevLevel 4c:4
	DefResuid 50:2 284:2
	DefResgid 52:2 286:2
	FirstIno 54:4
	InodeSize 58:2
	BlockGroupNr 5a:2
	FeatureCompat 5c:4
	FeatureIncompat 60:4
	FeatureROCompat 64:4
	UUID 68:10
	VolumeName 78:10
	LastMounted 88:40
	AlgorithmUsageBitmap c8:4
	PreallocBlocks cc:1
	PreallocDirBlocks cd:1
	ReservedGDTBlocks ce:2
	JournalUUID d0:10
	JournalInum e0:4
	JournalDev e4:4
	LastOrphan e8:4
	HashSeed ec:10
	DefHashVersion fc:1
	JnlBackupType fd:1
	DescSize fe:2
	DefaultMountOpts 100:4
	FirstMetaBg 104:4
	MkfsTime 108:4 276:1
	JnlBlocks 10c:44
	MinExtraIsize 15c:2
	WantExtraIsize 15e:2
	Flags 160:4
	RaidStride 164:2
	MMPInterval 166:2
	MMPBlock 168:8
	RaidStripeWidth 170:4
	LogGroupsPerFlex 174:1
	ChecksumType 175:1
	EncryptionLevel 176:1
	ReservedPad 177:1
	KbytesWritten 178:8
	SnapshotInum 180:4
	SnapshotID 184:4
	SnapshotRBlocksCount 188:8
	SnapshotList 190:4
	ErrorCount 194:4
	FirstErrorTime 198:4 278:1
	FirstErrorIno 19c:4
	FirstErrorBlock 1a0:8
	FirstErrorFunc 1a8:20
	FirstErrorLine 1c8:4
	LastErrorTime 1cc:4 279:1
	LastErrorIno 1d0:4
	LastErrorLine 1d4:4
	LastErrorBlock 1d8:8
	LastErrorFunc 1e0:20
	MountOpts 200:40
	UsrQuotaInum 240:4
	GrpQuotaInum 244:4
	OverheadBlocks 248:4
	BackupBGs 24c:8
	EncryptAlgos 254:4
	EncryptPwSalt 258:10
	LpfIno 268:4
	PrjQuotaInum 26c:4
	ChecksumSeed 270:4
	FirstErrorErrcode 27a:1
	LastErrorErrcode 27b:1
	Encoding 27c:2
	EncodingFlags 27e:2
	OrphanFileInum 280:4
	Checksum 3fc:4
`

func TestSuperblockFields(t *testing.T) {
	checkFields(t, SuperblockSize, func(Superblock) {}, superPlaces, "Features")
}

func TestSuperblockFeatures(t *testing.T) {
	sb := Superblock(make([]byte, SuperblockSize))
	f := Features{0x12345678, 0x9abcdef0, 0x2468ace1}
	sb.SetFeatures(f)
	require.Equal(t, f, sb.Features())
	require.Equal(t, f.Incompat, sb.FeatureIncompat())
}

func TestSuperblockBlockSize(t *testing.T) {
	sb := Superblock(make([]byte, SuperblockSize))
	for log := range uint32(7) {
		sb.SetLogBlockSize(log)
		require.Equal(t, 1024<<log, sb.BlockSize())
	}
	for _, log := range []uint32{7, 63, 64, 1 << 31, 0xffffffff} {
		sb.SetLogBlockSize(log)
		require.Zero(t, sb.BlockSize())
	}
}

func TestValidateSuperblock(t *testing.T) {
	good := testSuperblock()
	require.NoError(t, ValidateSuperblock(good))
	require.EqualError(t, ValidateSuperblock(good[:1023]), "superblock at 0x0: 1023 bytes, want 1024")
	require.EqualError(t, ValidateSuperblock(nil), "superblock at 0x0: 0 bytes, want 1024")
	good.SetMagic(0x1234)
	err := ValidateSuperblock(good)
	require.EqualError(t, err, "superblock at 0x38: s_magic is 0x1234, want 0xef53")
	require.ErrorIs(t, err, ErrDamaged)
}
