package xattr

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"drydock/device"
	"drydock/format"
	"drydock/internal/alloc"
	"drydock/internal/oracle"
	"drydock/journal"
)

// live is an image whose inodes a Store changes, through transactions of a
// journal without a log and with the allocator of the real thing.
type live struct {
	*image
	t   *testing.T
	dev *device.File
	j   *journal.Journal
	a   *alloc.Allocator
	s   *Store
	tx  *journal.Tx
}

func openLive(t *testing.T, path string) *live {
	v := &live{image: openImage(t, path), t: t}
	var err error
	v.dev, err = device.Open(path, device.Options{})
	require.NoError(t, err)
	v.j, err = journal.Open(journal.Options{Device: v.dev, BlockSize: v.geo.BlockSize, Blocks: uint64(v.geo.BlocksCount), Poison: true})
	require.NoError(t, err)
	sb := format.Superblock(make([]byte, format.SuperblockSize))
	_, err = v.dev.ReadAt(sb, format.SuperblockOffset)
	require.NoError(t, err)
	v.a, err = alloc.New(alloc.Options{Geometry: &v.geo, Checksums: v.sums, Super: sb, Journal: v.j})
	require.NoError(t, err)
	v.s = NewStore(&v.geo, v.sums)
	return v
}

// AllocBlock and FreeBlock make it a Space.
func (v *live) AllocBlock(goal format.Block) (format.Block, error) { return v.a.AllocBlock(v.tx, goal) }

func (v *live) FreeBlock(b format.Block) error {
	v.tx.Forget(b)
	return v.a.Free(v.tx, b, 1)
}

// change runs fn on an inode within a transaction; what it returns is added
// to i_blocks. An error ends the transaction without a trace.
func (v *live) change(ino format.Ino, at int64, fn func(n format.Inode) (int, error)) error {
	bs := int64(v.geo.BlockSize)
	var err error
	v.tx, err = v.j.Begin()
	require.NoError(v.t, err)
	defer v.tx.Abort()
	raw, err := v.tx.Change(format.Block(at / bs))
	require.NoError(v.t, err)
	n := format.Inode(raw[at%bs:][:v.geo.InodeSize])
	delta, err := fn(n)
	if err != nil {
		return err
	}
	sectors := int64(n.Sectors(v.geo.Features, int(bs))) + int64(delta)*bs/512
	require.True(v.t, n.SetSectors(v.geo.Features, int(bs), uint64(sectors)))
	v.sums.SealInode(ino, n)
	_, err = v.tx.Commit()
	require.NoError(v.t, err)
	return nil
}

// finish writes everything home, with the counter of free blocks.
func (v *live) finish() {
	require.NoError(v.t, v.j.SyncAll())
	free := v.a.Sums().FreeBlocks
	require.NoError(v.t, v.j.Close())
	sb := format.Superblock(make([]byte, format.SuperblockSize))
	_, err := v.dev.ReadAt(sb, format.SuperblockOffset)
	require.NoError(v.t, err)
	sb.SetFreeBlocksCount(free)
	format.SealSuperblock(sb)
	_, err = v.dev.WriteAt(sb, format.SuperblockOffset)
	require.NoError(v.t, err)
	require.NoError(v.t, v.dev.Close())
}

// hostAttr returns a random attribute; values are few, so that blocks are shared.
func hostAttr(r *rand.Rand, limit int) (name, value string) {
	names := []string{"user.a", "user.bb", "user.\xe4\xf6", "trusted.a", "security.label", "user." + strings.Repeat("n", 200), "system.posix_acl_access"}
	name = names[r.IntN(len(names))]
	if strings.HasPrefix(name, "system") {
		return name, string(hostACLWithMask)
	}
	sizes := []int{0, 1, 5, 60, 200, 500, limit - 250}
	return name, strings.Repeat(string(rune('A'+r.IntN(2))), sizes[r.IntN(len(sizes))])
}

// Hundreds of files with random attributes, some from the kernel, more from the
// store: e2fsck finds nothing, and the kernel reads what it should.
func TestKernelReadsStore(t *testing.T) {
	t.Parallel()
	oracle.Need(t, "mke2fs", "debugfs", "e2fsck")
	for _, c := range []struct{ block, inode, features string }{
		{"1024", "128", "^metadata_csum,uninit_bg,^64bit"}, {"1024", "256", "metadata_csum,64bit"},
		{"2048", "512", "metadata_csum,metadata_csum_seed"}, {"4096", "1024", "metadata_csum"}, {"4096", "256", "^extra_isize,^metadata_csum"},
	} {
		t.Run(c.block+"/"+c.inode+"/"+c.features, func(t *testing.T) {
			path := t.TempDir() + "/fs.img"
			oracle.Run(t, "mke2fs", "-q", "-F", "-t", "ext4", "-b", c.block, "-I", c.inode, "-O", c.features, path, "32M")
			r := rand.New(rand.NewPCG(1, 7))
			const files = 60
			dir := oracle.Mount(t, path)
			want := kernelAttrs(t, dir, r, files)
			oracle.Unmount(t, dir)
			changeAttrs(t, path, r, want)
			oracle.Fsck(t, path)
			dir = oracle.Mount(t, path)
			for name, attrs := range want {
				require.Equal(t, attrs, getAttrs(t, filepath.Join(dir, name)), name)
			}
			oracle.Unmount(t, dir)
			oracle.Fsck(t, path)
		})
	}
}

// kernelAttrs makes files with a few attributes each.
func kernelAttrs(t *testing.T, dir string, r *rand.Rand, files int) map[string]map[string]string {
	want := map[string]map[string]string{}
	for i := range files {
		name := fmt.Sprintf("f%d", i)
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("data"), 0644))
		require.NoError(t, os.Chmod(path, 0644))
		for range r.IntN(3) {
			key, value := hostAttr(r, 700)
			if err := unix.Lsetxattr(path, key, []byte(value), 0); err != unix.ENOSPC {
				require.NoError(t, err)
			}
		}
		want[name] = getAttrs(t, path)
	}
	return want
}

// changeAttrs changes the attributes of all files at random.
func changeAttrs(t *testing.T, path string, r *rand.Rand, want map[string]map[string]string) {
	type place struct {
		ino format.Ino
		at  int64
	}
	v := openLive(t, path)
	places := map[string]place{}
	for name := range want {
		ino, _, at := v.inode(t, "/"+name)
		places[name] = place{ino, at}
	}
	for i := range 700 {
		name := fmt.Sprintf("f%d", r.IntN(len(want)))
		p := places[name]
		attrs := maps.Clone(want[name])
		key, value := hostAttr(r, v.geo.BlockSize)
		err := v.change(p.ino, p.at, func(n format.Inode) (int, error) {
			x, err := FromHost(key, []byte(value))
			require.NoError(t, err)
			if i%4 == 0 {
				delete(attrs, key)
				return v.s.Remove(v.tx, v, p.ino, n, x.Index, x.Name)
			}
			attrs[key] = value
			return v.s.Set(v.tx, v, p.ino, n, x, 0)
		})
		if err == nil {
			want[name] = attrs
		}
		if i%200 == 0 {
			require.NoError(t, v.j.SyncAll())
		}
	}
	v.finish()
}
