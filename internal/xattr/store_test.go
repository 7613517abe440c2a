package xattr

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/format"
)

// randomAttr returns one of few names and one of few values, so that inodes
// often come to have the same.
func (m *bench) randomAttr() format.Xattr {
	names := []format.Xattr{
		{Index: format.XattrUser, Name: "a"}, {Index: format.XattrUser, Name: "bb"}, {Index: format.XattrUser, Name: "\xe4\xf6"},
		{Index: format.XattrTrusted, Name: "a"}, {Index: format.XattrSecurity, Name: "selinux"}, {Index: format.XattrACLAccess},
		{Index: format.XattrUser, Name: strings.Repeat("n", 200)},
	}
	x := names[m.r.IntN(len(names))]
	sizes := []int{0, 1, 4, 30, 61, 200, 500, m.tx.blockSize - 300, m.tx.blockSize}
	x.Value = bytes.Repeat([]byte{byte('A' + m.r.IntN(2))}, sizes[m.r.IntN(len(sizes))])
	return x
}

// step does one random change, in a transaction that is aborted at times.
func (m *bench) step() {
	i := m.r.IntN(len(m.inodes))
	inode, model, blocks := slices.Clone(m.inodes[i]), maps.Clone(m.model[i]), m.blocks[i]
	abort := m.tx.begin()
	ok := m.change(i)
	if ok && m.r.IntN(5) > 0 {
		return
	}
	abort()
	copy(m.inodes[i], inode)
	m.model[i], m.blocks[i] = model, blocks
}

// change does one random change and reports whether it went well.
func (m *bench) change(i int) bool {
	x := m.randomAttr()
	var delta int
	var err error
	switch k := m.r.IntN(10); {
	case k < 6:
		delta, err = m.set(i, x, 0)
		m.model[i][x.FullName()] = string(x.Value)
	case k < 8:
		delta, err = m.remove(i, x)
		delete(m.model[i], x.FullName())
	case k < 9:
		other := m.r.IntN(len(m.inodes))
		list, readErr := m.s.read(m.tx, format.Ino(other+1), m.inodes[other])
		require.NoError(m.t, readErr)
		m.r.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
		delta, err = m.s.write(m.tx, m.tx, format.Ino(i+1), m.inodes[i], list)
		m.model[i] = maps.Clone(m.model[other])
	default:
		delta, err = m.s.write(m.tx, m.tx, format.Ino(i+1), m.inodes[i], nil)
		m.model[i] = map[string]string{}
	}
	if err != nil {
		require.True(m.t, errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.ENODATA), "%v", err)
		return false
	}
	m.blocks[i] += delta
	return true
}

func (m *bench) set(i int, x format.Xattr, flags int) (int, error) {
	return m.s.update(m.tx, m.tx, format.Ino(i+1), m.inodes[i], func(list []format.Xattr) ([]format.Xattr, error) { return With(list, x, flags) })
}

func (m *bench) remove(i int, x format.Xattr) (int, error) {
	return m.s.update(m.tx, m.tx, format.Ino(i+1), m.inodes[i], func(list []format.Xattr) ([]format.Xattr, error) { return Without(list, x.Index, x.Name) })
}

func TestStoreAgainstModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ block, inode, extra int }{
		{1024, 128, 0}, {1024, 256, 32}, {4096, 256, 0}, {4096, 256, 4}, {4096, 512, 32}, {2048, 1024, 28}, {65536, 256, 32}, {1024, 256, 124},
	} {
		for seed := range uint64(25) {
			t.Run(fmt.Sprintf("%d/%d/%d/%d", c.block, c.inode, c.extra, seed), func(t *testing.T) {
				m := newBench(t, c.block, c.inode, c.extra, 1+int(seed), seed)
				for step := range 200 {
					m.step()
					if step%10 == 0 {
						m.check()
					}
				}
				m.check()
				for i := range m.inodes {
					delta, err := m.s.write(m.tx, m.tx, format.Ino(i+1), m.inodes[i], nil)
					require.NoError(t, err)
					m.blocks[i] += delta
					m.model[i] = map[string]string{}
				}
				m.check()
				require.Empty(t, m.tx.used)
			})
		}
	}
}

// big is an attribute that fits no inode here.
var big = format.Xattr{Index: format.XattrUser, Name: "big", Value: bytes.Repeat([]byte("x"), 600)}

// A block is shared by up to 1,024 inodes, each of which is charged for it.
func TestStoreShares(t *testing.T) {
	m := newBench(t, 1024, 256, 32, 1030, 1)
	for i := range m.inodes {
		delta, err := m.set(i, big, CreateOnly)
		require.NoError(t, err)
		require.Equal(t, 1, delta)
		m.blocks[i] = 1
		m.model[i]["user.big"] = string(big.Value)
	}
	m.check()
	require.Len(t, m.tx.used, 2)
	require.EqualValues(t, 1024, format.XattrBlock(m.tx.blocks[100]).Refcount())

	other := big
	other.Value = bytes.Repeat([]byte("y"), 600)
	delta, err := m.set(0, other, ReplaceOnly)
	require.NoError(t, err)
	require.Zero(t, delta)
	m.model[0]["user.big"] = string(other.Value)
	m.check()
	require.Len(t, m.tx.used, 3)
	require.NotEqual(t, m.inodes[0].FileACL(), m.inodes[1].FileACL())
	require.Equal(t, []format.Block{0, 0, 100}, m.tx.goals)
}

// What only one inode uses is changed in its place.
func TestStoreRewrites(t *testing.T) {
	m := newBench(t, 1024, 256, 32, 1, 1)
	for i := range 5 {
		x := big
		x.Value = bytes.Repeat([]byte{byte('a' + i)}, 600)
		_, err := m.set(0, x, 0)
		require.NoError(t, err)
		require.EqualValues(t, 100, m.inodes[0].FileACL())
	}
	require.Len(t, m.tx.goals, 1)
}

// Hints about blocks that were freed, or that only an aborted transaction had
// allocated, are gone, though the content is still there.
func TestStoreForgets(t *testing.T) {
	m := newBench(t, 1024, 256, 32, 2, 1)
	before := slices.Clone(m.inodes[0])
	abort := m.tx.begin()
	_, err := m.set(0, big, 0)
	require.NoError(t, err)
	abort()
	copy(m.inodes[0], before)
	m.tx.used[100] = true // somebody else has it now, with what it held
	_, err = m.set(1, big, 0)
	require.NoError(t, err)
	require.EqualValues(t, 101, m.inodes[1].FileACL())

	_, err = m.remove(1, big)
	require.NoError(t, err)
	m.tx.used[101] = true
	_, err = m.set(0, big, 0)
	require.NoError(t, err)
	require.EqualValues(t, 102, m.inodes[0].FileACL())
}

func TestStoreFlags(t *testing.T) {
	m := newBench(t, 1024, 256, 32, 1, 1)
	_, err := m.set(0, big, ReplaceOnly)
	require.Equal(t, syscall.ENODATA, err)
	_, err = m.set(0, big, CreateOnly)
	require.NoError(t, err)
	_, err = m.set(0, big, CreateOnly)
	require.Equal(t, syscall.EEXIST, err)
	_, err = m.set(0, big, 4)
	require.Equal(t, syscall.EINVAL, err)
	_, err = m.remove(0, format.Xattr{Index: format.XattrTrusted, Name: "big"})
	require.Equal(t, syscall.ENODATA, err)
}

// Where an attribute does not fit, nothing changes.
func TestStoreNoSpace(t *testing.T) {
	m := newBench(t, 1024, 128, 0, 1, 1)
	x := big
	x.Value = make([]byte, 2000)
	_, err := m.set(0, x, 0)
	var space *SpaceError
	require.ErrorAs(t, err, &space)
	require.ErrorIs(t, err, syscall.ENOSPC)
	m.tx.left = 0
	_, err = m.set(0, big, 0)
	require.ErrorIs(t, err, errNoSpace)
	m.check()
}

func TestStoreRefuses(t *testing.T) {
	m := newBench(t, 1024, 256, 32, 1, 1)
	m.inodes[0].SetFlags(format.InodeInlineData)
	_, err := m.set(0, big, 0)
	require.ErrorIs(t, err, format.ErrUnsupported)

	m = newBench(t, 1024, 256, 32, 1, 1)
	_, err = m.set(0, format.Xattr{Index: format.XattrUser, Name: "a", Value: []byte("1")}, 0)
	require.NoError(t, err)
	m.inodes[0][m.fixed+4+4] = 99 // e_value_inum
	_, err = m.set(0, big, 0)
	require.ErrorIs(t, err, format.ErrUnsupported)
	require.ErrorContains(t, err, "user.a")
	_, err = m.s.write(m.tx, m.tx, 1, m.inodes[0], nil)
	require.ErrorIs(t, err, format.ErrUnsupported)
}

func TestStoreDamage(t *testing.T) {
	for name, harm := range map[string]func(m *bench, raw []byte){
		"h_blocks":                 func(_ *bench, raw []byte) { raw[8] = 2 },
		"checksum does not match":  func(_ *bench, raw []byte) { raw[1023] ^= 1 },
		"1025 users, want 1":       func(_ *bench, raw []byte) { format.XattrBlock(raw).SetRefcount(1025) },
		"0 users, want 1":          func(_ *bench, raw []byte) { format.XattrBlock(raw).SetRefcount(0) },
		"attributes in block 0x":   func(m *bench, _ []byte) { m.inodes[0].SetFileACL(1 << 20) },
		"i_extra_isize 33, want":   func(m *bench, _ []byte) { m.inodes[0].SetExtraIsize(33) },
		"i_extra_isize 132, want":  func(m *bench, _ []byte) { m.inodes[0].SetExtraIsize(132) },
		"entries without an end":   func(m *bench, _ []byte) { fill(m.inodes[0][m.fixed+4:], 0x11) },
		"xattr block in block 100": func(_ *bench, raw []byte) { raw[0] = 1 },
	} {
		m := newBench(t, 1024, 256, 32, 1, 1)
		for _, x := range []format.Xattr{big, {Index: format.XattrUser, Name: "small", Value: []byte("v")}} {
			_, err := m.set(0, x, 0)
			require.NoError(t, err)
		}
		harm(m, m.tx.blocks[100])
		_, err := m.set(0, format.Xattr{Index: format.XattrUser, Name: "c"}, 0)
		require.ErrorIs(t, err, format.ErrDamaged, name)
		require.ErrorContains(t, err, strings.TrimSuffix(name, "0x"))
		require.ErrorContains(t, err, "inode 1: ")
	}
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// Of two attributes with one name Linux sees the one in the inode.
func TestStoreDoubled(t *testing.T) {
	m := newBench(t, 1024, 256, 32, 1, 1)
	_, err := m.set(0, big, 0)
	require.NoError(t, err)
	twin := format.Xattr{Index: big.Index, Name: big.Name, Value: []byte("inside")}
	require.NoError(t, format.EncodeInodeXattrs(m.inodes[0][m.fixed:], []format.Xattr{twin}))
	m.model[0]["user.big"] = "inside"
	m.checkInode(0)
	delta, err := m.remove(0, big)
	require.NoError(t, err)
	require.Equal(t, -1, delta)
	delete(m.model[0], "user.big")
	m.checkInode(0)
}

// Blocks of kernels that took the bytes of names as signed are read, and
// written anew with what is right today.
func TestStoreSignedHash(t *testing.T) {
	m := newBench(t, 1024, 128, 0, 1, 1)
	_, err := m.set(0, format.Xattr{Index: format.XattrUser, Name: "\xe4", Value: []byte("v")}, 0)
	require.NoError(t, err)
	raw := m.tx.blocks[100]
	signed := format.XattrEntryHashSigned("\xe4", []byte("v"))
	raw[32+12], raw[32+13], raw[32+14], raw[32+15] = byte(signed), byte(signed>>8), byte(signed>>16), byte(signed>>24)
	testSums.SealXattrBlock(100, raw)
	_, err = m.set(0, big, 0)
	require.NoError(t, err)
	require.NoError(t, format.WalkXattrBlock(m.tx.blocks[100], func(e format.XattrEntry) bool {
		require.Equal(t, format.XattrEntryHash(e.Name, e.Value), e.Hash)
		return true
	}))
}

// Random bytes in inode and block end in errors, never in a panic.
func TestStoreRandomDamage(t *testing.T) {
	for seed := range uint64(1000) {
		m := newBench(t, 1024, 256, 32, 2, seed)
		m.s.sums = format.Checksums{}
		for i := range m.inodes {
			for _, x := range []format.Xattr{big, {Index: format.XattrUser, Name: "small", Value: []byte("v")}} {
				_, err := m.set(i, x, 0)
				require.NoError(t, err)
			}
		}
		for range 1 + m.r.IntN(4) {
			where := [][]byte{m.inodes[0][128:], m.inodes[0][m.fixed:][:40], m.tx.blocks[100][:80]}[m.r.IntN(3)]
			where[m.r.IntN(len(where))] = byte(m.r.IntN(256))
		}
		for range 6 {
			x := m.randomAttr()
			_, err := m.set(m.r.IntN(2), x, 0)
			if err == nil {
				_, err = m.remove(m.r.IntN(2), x)
			}
			require.True(t, err == nil || oneOf(err, format.ErrDamaged, format.ErrUnsupported, errNoBlock, syscall.ENOSPC, syscall.ENODATA), "%v", err)
		}
	}
}

func oneOf(err error, list ...error) bool {
	return slices.ContainsFunc(list, func(want error) bool { return errors.Is(err, want) })
}
