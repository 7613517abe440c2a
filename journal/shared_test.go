package journal_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/oracle"
	"drydock/journal"
)

// unpackShared unpacks one of the images of e2fsprogs and returns its path.
func unpackShared(t testing.TB, name string) string {
	f, err := os.Open(oracle.Shared(t, "e2fsprogs-images/"+name+".img.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	path := fileOf(t, name+".img")
	out, err := os.Create(path)
	require.NoError(t, err)
	defer out.Close()
	_, err = io.Copy(out, z)
	require.NoError(t, err)
	return path
}

// sharedLog is what is known of the journal in one of these images.
type sharedLog struct {
	name         string
	transactions int
	failed       format.Tid // the commit of this one is bad
	damage       string     // in the message of Damage; "" if there is none
}

var sharedLogs = []sharedLog{
	{name: "j_corrupt_commit_csum", failed: 3, damage: "commit block of transaction 3"},
	{name: "j_corrupt_commit_tid"},
	{name: "j_corrupt_descr_csum", damage: "checksum of transaction 3"},
	{name: "j_corrupt_descr_tid"},
	{name: "j_corrupt_revoke_csum", transactions: 1},
	{name: "j_corrupt_revoke_rcount", damage: "65535 bytes in use, want at most 4096"},
	{name: "j_recover_csum2_32bit", transactions: 1},
	{name: "f_journal", transactions: 1},
	{name: "f_jnl_32bit", transactions: 1},
	{name: "f_clear_orphan_file", transactions: 1},
}

// The journals in the images of e2fsprogs: what is done with each, and that
// e2fsck, after its own replay, ends with the same file system.
func TestSharedLogs(t *testing.T) {
	t.Parallel()
	oracle.Need(t, "e2fsck")
	for _, c := range sharedLogs {
		ours := unpackShared(t, c.name)
		theirs := copyFile(t, ours)
		r := recoverImage(t, ours)
		require.Equal(t, c.damage != "", r.Damage != nil, "%s: %v", c.name, r.Damage)
		if c.damage != "" {
			require.ErrorContains(t, r.Damage, c.damage, c.name)
		}
		require.Equal(t, c.transactions > 0, r.Transactions > 0, c.name)
		require.Equal(t, []any{c.failed, c.failed > 0}, []any{r.Failed, r.HasFailed}, c.name)
		for _, path := range []string{theirs, ours} {
			exit, out := program(t, "e2fsck", "-fy", path)
			require.Less(t, exit, 4, "%s: %s", c.name, out)
		}
		requireSameFS(t, theirs, ours, c.name)
	}
}

// Journals that cannot be read at all, and a device that is one.
func TestSharedNoJournal(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"j_corrupt_sb_csum":  "journal superblock at 0xfc: checksum",
		"j_corrupt_sb_magic": "journal superblock at 0x0: magic",
	} {
		_, err := journal.Scan(imageArea(t, loadImage(t, unpackShared(t, name))), journal.ScanOptions{})
		require.ErrorIs(t, err, format.ErrDamaged)
		require.ErrorContains(t, err, want)
	}
	dev := loadImage(t, unpackShared(t, "j_ext_dumpe2fs"))
	sb := imageSuperOf(t, dev)
	_, err := journal.NewExternalArea(dev, sb.BlockSize(), fsUUID, sb.UUID())
	require.ErrorContains(t, err, "does not serve the file system")
}

// imageSuperOf returns a superblock without looking at it.
func imageSuperOf(t testing.TB, dev device.Device) format.Superblock {
	sb := make(format.Superblock, format.SuperblockSize)
	_, err := dev.ReadAt(sb, format.SuperblockOffset)
	require.NoError(t, err)
	return sb
}

// The journal with fast commits: all records, in order, of the transaction
// after the last full one.
func TestSharedFastCommits(t *testing.T) {
	t.Parallel()
	dev := loadImage(t, unpackShared(t, "j_recover_fast_commit"))
	sb := imageSuper(t, dev)
	r, err := journal.Scan(imageArea(t, dev), journal.ScanOptions{Blocks: sb.BlocksCount(), InodeSize: int(sb.InodeSize())})
	require.NoError(t, err)
	require.NoError(t, r.Damage)
	var got []string
	for rec, err := range r.FastCommits() {
		require.NoError(t, err)
		switch rec.Tag {
		case format.FCCreat, format.FCLink, format.FCUnlink:
			d := rec.Dentry()
			got = append(got, fmt.Sprintf("%s %d in %d: %s", rec.Name(), d.Ino, d.Parent, d.Name))
		case format.FCInode:
			ino, raw := rec.Inode()
			got = append(got, fmt.Sprintf("INODE %d of %d bytes", ino, raw.Size()))
		case format.FCAddRange:
			x := rec.AddRange()
			got = append(got, fmt.Sprintf("ADD_RANGE %d %d+%d at %d", x.Ino, x.Extent.LBlock, x.Extent.Len, x.Extent.Start))
		default:
			got = append(got, rec.Name())
		}
	}
	require.Equal(t, []string{
		"INODE 14 of 5 bytes", "ADD_RANGE 14 0+1 at 1107", "CREAT 14 in 12: new", "UNLINK 13 in 12: old",
		"INODE 13 of 262144 bytes", "ADD_RANGE 13 0+16 at 1619", "ADD_RANGE 13 16+16 at 1601", "ADD_RANGE 13 32+32 at 1985",
		"ADD_RANGE 13 64+64 at 1537", "ADD_RANGE 13 128+128 at 1793", "CREAT 13 in 12: data",
		"INODE 14 of 5 bytes", "INODE 13 of 262144 bytes", // a second fast commit
	}, got)
	require.Len(t, got, r.FastRecords)
}
