package format

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/internal/oracle"
)

// mkext4 makes an image with mke2fs and returns its path.
func mkext4(t *testing.T, size string, args ...string) string {
	oracle.Need(t, "mke2fs", "debugfs")
	path := filepath.Join(t.TempDir(), "fs.img")
	oracle.Run(t, "mke2fs", append(append([]string{"-q", "-F", "-t", "ext4"}, args...), path, size)...)
	return path
}

// copyImage copies an image as a power cut would leave it: the kernel has it
// mounted still.
func copyImage(t *testing.T, path string) string {
	to := filepath.Join(t.TempDir(), "copy.img")
	oracle.Run(t, "cp", "--sparse=always", path, to)
	return to
}

// journalOf returns the blocks of the journal in an image.
func journalOf(t *testing.T, image string) []byte {
	out := filepath.Join(t.TempDir(), "journal")
	oracle.Debugfs(t, image, "dump <8> "+out)
	log, err := os.ReadFile(out)
	require.NoError(t, err)
	return log
}

// logReader reads a log, whose checksums must all be right.
type logReader struct {
	s   JournalSuperblock
	f   JournalFormat
	log []byte
	at  uint32

	tags, escaped, revokes, commits, descriptors int
	homes                                        map[Block][]byte // the last copy of each block that no later revoke names
	inTid                                        map[Block]Tid    // the transaction of that copy
}

func openLog(t *testing.T, log []byte) *logReader {
	s := JournalSuperblock(log[:JournalSuperblockSize])
	require.NoError(t, CheckJournalSuperblock(s, int(s.BlockSize()), uint64(len(log))/uint64(s.BlockSize())))
	return &logReader{s: s, f: s.Format(), log: log, at: s.Start(), homes: map[Block][]byte{}, inTid: map[Block]Tid{}}
}

// next returns the block at the reader's place and moves on.
func (r *logReader) next() []byte {
	b := r.log[int(r.at)*r.f.BlockSize:][:r.f.BlockSize]
	if r.at++; r.at == r.s.LogEnd() {
		r.at = r.s.First()
	}
	return b
}

// read reads to the end of the log.
func (r *logReader) read(t *testing.T) {
	tid, crc := r.s.Sequence(), uint32(allOnes)
	revoked := map[Block]Tid{}
	defer func() {
		for home, by := range revoked {
			if last, ok := r.inTid[home]; ok && !by.Before(last) {
				delete(r.homes, home)
			}
		}
	}()
	for {
		b := r.next()
		h, ok := ReadJournalHeader(b)
		if !ok || h.Sequence != tid {
			return
		}
		switch h.Type {
		case JournalDescriptor:
			require.True(t, r.f.VerifyTail(b), "descriptor of %d", tid)
			r.descriptors++
			crc = r.tagged(t, b, tid, JournalCRC(crc, b))
		case JournalRevoke:
			require.True(t, r.f.VerifyTail(b), "revoke block of %d", tid)
			blocks, err := collectRevokes(r.f, b)
			require.NoError(t, err)
			r.revokes += len(blocks)
			for _, home := range blocks {
				revoked[home] = tid
			}
		case JournalCommit:
			require.True(t, r.f.VerifyCommit(b, crc), "commit of %d", tid)
			r.commits++
			tid, crc = tid+1, allOnes
		default:
			t.Fatalf("block of type %d", h.Type)
		}
	}
}

// tagged reads the blocks that follow a descriptor.
func (r *logReader) tagged(t *testing.T, descriptor []byte, tid Tid, crc uint32) uint32 {
	for tag := range r.f.Tags(descriptor) {
		data := bytes.Clone(r.next())
		require.True(t, r.f.VerifyTag(tag, tid, data), "block %d in %d", tag.Block, tid)
		crc = JournalCRC(crc, data)
		r.tags++
		if tag.Flags&JournalTagEscape != 0 {
			r.escaped++
			UnescapeJournalBlock(data)
		}
		r.homes[tag.Block], r.inTid[tag.Block] = data, tid
	}
	return crc
}

// dirtyJournal lets the kernel write several transactions, with revokes and
// escaped blocks, and copies the image.
func dirtyJournal(t *testing.T, image string, opts ...string) string {
	// The flag, which files inherit, makes data go through the journal too.
	oracle.Run(t, "debugfs", "-w", "-R", "set_inode_field <2> flags 0x84000", image)
	dir := oracle.Mount(t, image, append(opts, "nodelalloc")...)
	for i := range 3 {
		sub := filepath.Join(dir, fmt.Sprint("dir", i))
		require.NoError(t, os.Mkdir(sub, 0755))
		for k := range 40 {
			data := append([]byte{0xC0, 0x3B, 0x39, 0x98}, bytes.Repeat([]byte{byte(k)}, 100)...)
			require.NoError(t, os.WriteFile(filepath.Join(sub, fmt.Sprintf("file-with-a-long-name-%030d", k)), data, 0644))
		}
		oracle.Run(t, "sync", "-f", dir)
		if i > 0 {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, fmt.Sprint("dir", i-1))))
		}
	}
	oracle.Run(t, "sync", "-f", dir)
	return copyImage(t, image)
}

// Journals that the kernel wrote in every format that it still writes.
func TestKernelJournal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		features string
		opts     []string
		want     JournalFormat
	}{
		{"metadata_csum,64bit", nil, JournalFormat{Csum: 3, Wide: true}},
		{"metadata_csum,^64bit", nil, JournalFormat{Csum: 3}},
		{"^metadata_csum,^64bit", nil, JournalFormat{}},
		{"^metadata_csum,64bit", []string{"journal_checksum", "journal_async_commit", "data=writeback"}, JournalFormat{Csum: 1, Wide: true}},
	} {
		image := mkext4(t, "24M", "-b", "1024", "-O", c.features, "-J", "size=8")
		r := openLog(t, journalOf(t, dirtyJournal(t, image, c.opts...)))
		require.Equal(t, []any{c.want.Csum, c.want.Wide}, []any{r.f.Csum, r.f.Wide}, c.features)
		require.NotZero(t, r.s.Start())
		r.read(t)
		require.GreaterOrEqual(t, r.commits, 3)
		require.GreaterOrEqual(t, r.descriptors, 3)
		require.Greater(t, r.tags, 50)
		require.Positive(t, r.revokes)
		require.GreaterOrEqual(t, r.escaped, 40)
	}
}

// What the log holds for a block is what the kernel's replay writes home.
func TestKernelReplayAgrees(t *testing.T) {
	t.Parallel()
	image := mkext4(t, "24M", "-b", "1024", "-J", "size=8")
	dirty := dirtyJournal(t, image)
	r := openLog(t, journalOf(t, dirty))
	r.read(t)
	oracle.Run(t, "debugfs", "-w", "-R", "journal_run", dirty)
	data, err := os.ReadFile(dirty)
	require.NoError(t, err)
	require.Greater(t, len(r.homes), 50)
	for b, want := range r.homes {
		if b != 1 { // the superblock, which debugfs writes itself
			require.True(t, bytes.Equal(want, data[int(b)*1024:][:1024]), "block %d", b)
		}
	}
}

// The first superblock of a journal is what mke2fs writes.
func TestEmptyJournalIsMke2fs(t *testing.T) {
	t.Parallel()
	image := mkext4(t, "24M", "-b", "1024", "-J", "size=4", "-U", "01020304-0506-0708-090a-0b0c0d0e0f10")
	log := journalOf(t, image)
	want := make([]byte, 1024)
	PutEmptyJournalSuperblock(want, 1024, 4096, [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	require.Equal(t, want, log[:1024])
	require.Len(t, log, 4096*1024)
}

// Fast commits that the kernel wrote: records of all kinds, and their CRCs.
func TestKernelFastCommit(t *testing.T) {
	t.Parallel()
	image := mkext4(t, "24M", "-b", "4096", "-O", "fast_commit", "-J", "size=8,fast_commit_size=400")
	dir := oracle.Mount(t, image)
	file := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(file("first"), make([]byte, 20000), 0644))
	oracle.Run(t, "sync", "-f", dir)
	step := func(body func(f *os.File)) {
		f, err := os.OpenFile(file("first"), os.O_RDWR, 0)
		require.NoError(t, err)
		body(f)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
	}
	step(func(f *os.File) { _, _ = f.WriteAt(make([]byte, 9000), 100000) })
	step(func(f *os.File) { _ = f.Truncate(5000) })
	step(func(*os.File) { _ = os.Link(file("first"), file("second")) })
	step(func(*os.File) { _ = os.Remove(file("second")) })
	f, err := os.Create(file("created"))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())

	kinds := fastCommits(t, journalOf(t, copyImage(t, image)))
	for _, want := range []string{"HEAD", "INODE", "ADD_RANGE", "DEL_RANGE", "CREAT", "LINK", "UNLINK", "TAIL"} {
		require.Positive(t, kinds[want], "%s in %v", want, kinds)
	}
}

// fastCommits counts the records of each kind up to the last fast commit of
// the first transaction there; the CRC of each must be right.
func fastCommits(t *testing.T, log []byte) map[string]int {
	s := JournalSuperblock(log[:JournalSuperblockSize])
	require.NoError(t, CheckJournalSuperblock(s, int(s.BlockSize()), uint64(len(log))/uint64(s.BlockSize())))
	first, end := s.FastCommitArea()
	require.NotZero(t, first)
	kinds := map[string]int{}
	crc, tid, done := uint32(0), Tid(0), false
	for b := first; b < end && !done; b++ {
		block := log[b*s.BlockSize():][:s.BlockSize()]
		err := WalkFastCommit(block, 256, func(r FCRecord) bool {
			sum := r.Sum(crc)
			crc = sum
			switch r.Tag {
			case FCHead:
				_, tid = r.Head()
			case FCTail:
				got, want := r.Tail()
				if done = got != tid; done {
					return false
				}
				require.Equal(t, want, sum, "record at %d in block %d", r.Offset, b)
				crc = 0
			}
			kinds[r.Name()]++
			return true
		})
		if err != nil {
			break // never written
		}
	}
	return kinds
}

// sharedJournals are images of e2fsprogs with journals in formats that the
// kernel no longer writes, or with faults, and what is to be found in them.
func TestSharedJournals(t *testing.T) {
	t.Parallel()
	oracle.Need(t, "debugfs")
	for _, c := range []struct {
		name    string
		csum    int
		commits int
	}{
		{"j_recover_csum2_32bit", 2, 1},
		{"j_corrupt_commit_tid", 3, 0},
		{"j_corrupt_descr_tid", 3, 0},
	} {
		log := journalOf(t, unpack(t, oracle.Shared(t, "e2fsprogs-images/"+c.name+".img.gz")))
		r := openLog(t, log)
		require.Equal(t, c.csum, r.f.Csum, c.name)
		r.read(t)
		require.GreaterOrEqual(t, r.commits, c.commits, c.name)
		require.Equal(t, c.commits > 0, r.commits > 0, c.name)
	}
	log := journalOf(t, unpack(t, oracle.Shared(t, "e2fsprogs-images/j_corrupt_sb_csum.img.gz")))
	require.ErrorContains(t, CheckJournalSuperblock(log[:1024], 1024, 1024), "journal superblock at 0xfc: checksum")
	log = journalOf(t, unpack(t, oracle.Shared(t, "e2fsprogs-images/j_corrupt_revoke_rcount.img.gz")))
	requireBadRevoke(t, log)
	kinds := fastCommits(t, journalOf(t, unpack(t, oracle.Shared(t, "e2fsprogs-images/j_recover_fast_commit.img.gz"))))
	require.Positive(t, kinds["CREAT"], "%v", kinds)
	require.Positive(t, kinds["ADD_RANGE"], "%v", kinds)
}

// requireBadRevoke looks for the revoke block whose count exceeds it.
func requireBadRevoke(t *testing.T, log []byte) {
	f := JournalSuperblock(log[:JournalSuperblockSize]).Format()
	for ; len(log) > 0; log = log[f.BlockSize:] {
		b := log[:f.BlockSize]
		if h, ok := ReadJournalHeader(b); ok && h.Type == JournalRevoke && jrCount.get(b) == 65535 {
			_, err := collectRevokes(f, b)
			require.EqualError(t, err, "revoke block at 0xc: 65535 bytes in use, want at most 4096")
			return
		}
	}
	t.Fatal("no such block")
}

// unpack unpacks an image and returns its path.
func unpack(t *testing.T, packed string) string {
	f, err := os.Open(packed)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "shared.img")
	out, err := os.Create(path)
	require.NoError(t, err)
	_, err = io.Copy(out, z)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	return path
}
