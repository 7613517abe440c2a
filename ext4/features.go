package ext4

import (
	"drydock/format"
)

// readable is every incompatible feature that this package reads.
const readable = format.IncompatFiletype | format.IncompatRecover | format.IncompatMetaBg |
	format.IncompatExtents | format.Incompat64Bit | format.IncompatMMP | format.IncompatFlexBg |
	format.IncompatEAInode | format.IncompatCsumSeed | format.IncompatLargeDir |
	format.IncompatInlineData | format.IncompatEncrypt | format.IncompatCasefold

// writable is every incompatible and every read-only compatible feature that
// this package also writes.
const (
	writable = format.IncompatFiletype | format.IncompatRecover | format.IncompatMetaBg |
		format.IncompatExtents | format.Incompat64Bit | format.IncompatFlexBg |
		format.IncompatCsumSeed | format.IncompatLargeDir
	writableRO = format.ROCompatSparseSuper | format.ROCompatLargeFile | format.ROCompatHugeFile |
		format.ROCompatGDTCsum | format.ROCompatDirNlink | format.ROCompatExtraIsize |
		format.ROCompatMetadataCsum | format.ROCompatOrphanPresent
)

// checkReadable decides whether a superblock is one that can be read from.
func checkReadable(sb format.Superblock, opts Options) error {
	f := sb.Features()
	if f.HasIncompat(format.IncompatJournalDev) {
		return &format.UnsupportedError{Detail: "this is the " + kindExtJournal + ", it holds no files"}
	}
	if !opts.IgnoreChecksums && !format.VerifySuperblock(sb) {
		return &format.DamagedError{Structure: "superblock", Offset: -1, Detail: "wrong checksum"}
	}
	if unknown := f.Incompat &^ readable; unknown != 0 {
		return &format.UnsupportedError{Features: format.Features{Incompat: unknown}}
	}
	return nil
}

// checkWritable decides whether a file system that can be read can be written.
func checkWritable(sb format.Superblock) error {
	f := sb.Features()
	closed := format.Features{Incompat: f.Incompat &^ writable, ROCompat: f.ROCompat &^ writableRO}
	switch {
	case closed != format.Features{}:
		return &format.UnsupportedError{Features: closed, Detail: "for writing; it can be opened for reading"}
	case !f.HasIncompat(format.IncompatExtents):
		return &format.UnsupportedError{Detail: "writing without the feature extent (ext2 and ext3); it can be opened for reading, or be given the feature by `tune2fs -O extent`"}
	case f.HasROCompat(format.ROCompatGDTCsum | format.ROCompatMetadataCsum):
		return &format.UnsupportedError{Detail: "writing with both of the features uninit_bg and metadata_csum"}
	case f.HasCompat(format.CompatHasJournal) && sb.JournalInum() == 0:
		return &format.UnsupportedError{Detail: "writing with an external journal; it can be opened for reading"}
	}
	return nil
}

// needsRecovery reports whether there are changes in the journal.
func needsRecovery(sb format.Superblock) bool {
	f := sb.Features()
	return f.HasCompat(format.CompatHasJournal) && f.HasIncompat(format.IncompatRecover)
}
