package format

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"drydock/internal/oracle"
)

// testSeed is a hash seed without symmetry.
var testSeed = [16]byte{0x01, 0x92, 0xa3, 0x74, 0xb5, 0x56, 0xc7, 0x38, 0xd9, 0x1a, 0xeb, 0xfc, 0x0d, 0xee, 0x2f, 0x80}

// Each line is what `debugfs -R 'dx_hash -h VERSION -s SEED NAME' IMAGE` of
// e2fsprogs 1.47.0 prints (VERSION 3 to 5 being the unsigned ones). The names
// are in hexadecimal.
func TestDirHashGolden(t *testing.T) {
	for _, g := range dirHashGoldens {
		name, err := hex.DecodeString(g.name)
		require.NoError(t, err)
		var seed [16]byte
		if g.seeded {
			seed = testSeed
		}
		hash, minor := DirHash(g.version, seed, name)
		require.Equal(t, [2]uint32{g.hash, g.minor}, [2]uint32{hash, minor}, "version %d of %q", g.version, name)
	}
}

// The index walks the hashes up to an end that no name may have, so the
// highest one is moved down, as the kernel does.
func TestDirHashOffEnd(t *testing.T) {
	require.EqualValues(t, 0xFFFFFFFC, hashOffEnd(0xFFFFFFFE))
	require.EqualValues(t, 0xFFFFFFFC, hashOffEnd(0xFFFFFFFC))
	require.EqualValues(t, 0, hashOffEnd(0))
}

func TestDirHashUnknownVersion(t *testing.T) {
	for _, version := range []uint8{HashSipHash, 7, 255} {
		require.False(t, ValidHashVersion(version))
		hash, minor := DirHash(version, testSeed, []byte("name"))
		require.Zero(t, hash)
		require.Zero(t, minor)
	}
}

// Words are packed four bytes at a time in the package, byte by byte here.
func TestPackName(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 256 {
		name := randomBytes(rng, n)
		for _, signed := range []bool{false, true} {
			for _, words := range []int{4, 8} {
				got := make([]uint32, words)
				packName(got, name, signed)
				require.Equal(t, packBytes(name, words, signed), got, "%x", name)
			}
		}
	}
}

func packBytes(name []byte, words int, signed bool) []uint32 {
	n := uint32(len(name))
	pad := n<<24 + n<<16 + n<<8 + n
	out := make([]uint32, words)
	for w := range out {
		v := pad
		for i := 4 * w; i < 4*w+4 && i < len(name); i++ {
			c := uint32(name[i])
			if signed && c >= 0x80 {
				c -= 0x100
			}
			v = v<<8 + c
		}
		out[w] = v
	}
	return out
}

// Names in ASCII hash the same in both variants; one high byte is enough to
// part them, unless it is the first of its word, where its sign falls off.
func TestDirHashSign(t *testing.T) {
	for _, version := range []uint8{HashLegacy, HashHalfMD4, HashTea} {
		for n := 2; n <= MaxNameLen; n++ {
			name := bytes.Repeat([]byte{'x'}, n)
			require.Equal(t, bothHashes(version, name), bothHashes(version+HashUnsigned, name), "version %d, %d bytes", version, n)
			name[1] = 0xE4
			require.NotEqual(t, bothHashes(version, name), bothHashes(version+HashUnsigned, name), "version %d, %d bytes", version, n)
		}
	}
}

func bothHashes(version uint8, name []byte) [2]uint32 {
	hash, minor := DirHash(version, testSeed, name)
	return [2]uint32{hash, minor}
}

func TestDirHashDebugfs(t *testing.T) {
	oracle.Need(t, "debugfs", "mke2fs")
	dir := t.TempDir()
	image := filepath.Join(dir, "small.img")
	oracle.Run(t, "mke2fs", "-q", "-t", "ext4", image, "2M")

	cases := hashCases(t)
	script := filepath.Join(dir, "script")
	require.NoError(t, os.WriteFile(script, hashScript(cases), 0o600))
	answers := hashAnswers(t, oracle.Run(t, "debugfs", "-f", script, image))
	require.Len(t, answers, len(cases))
	for i, c := range cases {
		hash, minor := DirHash(c.version, c.seed, c.name)
		require.Equal(t, answers[i], [2]uint32{hash, minor}, "version %d, seed %x, name %x", c.version, c.seed, c.name)
	}
}

type hashCase struct {
	version uint8
	seed    [16]byte
	name    []byte
}

// hashCases has every length with every version, with and without a seed.
func hashCases(t *testing.T) []hashCase {
	seed := rand.Uint64()
	t.Logf("random seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var cases []hashCase
	for version := range HashTeaUnsigned + 1 {
		for n := 1; n <= MaxNameLen; n++ {
			cases = append(cases, hashCase{version, [16]byte{}, scriptName(rng, n)})
			var s [16]byte
			binary.LittleEndian.PutUint64(s[:], rng.Uint64())
			binary.LittleEndian.PutUint64(s[8:], rng.Uint64())
			cases = append(cases, hashCase{version, s, scriptName(rng, n)})
			cases = append(cases, hashCase{version, testSeed, scriptName(rng, rng.IntN(40)+1)})
		}
	}
	return cases
}

// scriptName is a random name of bytes that can stand in a script: a third of
// the names is printable, a third has high bytes only, a third has any.
func scriptName(rng *rand.Rand, n int) []byte {
	low, size := 1, 255
	switch rng.IntN(3) {
	case 0:
		low, size = ' ', '~'-' '+1
	case 1:
		low, size = 0x80, 0x80
	}
	name := make([]byte, n)
	for i := range name {
		for name[i] == 0 || name[i] == '\n' || name[i] == '\r' {
			name[i] = byte(low + rng.IntN(size))
		}
	}
	return name
}

func hashScript(cases []hashCase) []byte {
	var s bytes.Buffer
	for _, c := range cases {
		quoted := strings.ReplaceAll(string(c.name), `"`, `""`)
		fmt.Fprintf(&s, "dx_hash -h %d -s %s -- \"%s\"\n", c.version, uuid.UUID(c.seed), quoted)
	}
	return s.Bytes()
}

func hashAnswers(t *testing.T, out string) (answers [][2]uint32) {
	lines := bufio.NewScanner(strings.NewReader(out))
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "Hash of ") {
			continue
		}
		var a [2]uint32
		at := strings.LastIndex(lines.Text(), " is 0x")
		require.Positive(t, at)
		_, err := fmt.Sscanf(lines.Text()[at:], " is 0x%x (minor 0x%x)", &a[0], &a[1])
		require.NoError(t, err)
		answers = append(answers, a)
	}
	return answers
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func BenchmarkDirHash(b *testing.B) {
	for _, n := range []int{8, 24, 64, 255} {
		name := bytes.Repeat([]byte("n\xE4me"), n)[:n]
		for version, title := range []string{"legacy", "half_md4", "tea"} {
			b.Run(fmt.Sprintf("%s/%d", title, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					DirHash(uint8(version), testSeed, name)
				}
			})
		}
	}
}

var dirHashGoldens = []struct {
	version     uint8
	seeded      bool
	name        string
	hash, minor uint32
}{
	{0, false, "61", 0xe74b53e2, 0x0},
	{0, false, "616263", 0x75afd992, 0x0},
	{0, false, "61626364", 0xfafa23ca, 0x0},
	{0, false, "6c6f73742b666f756e64", 0x5e2aba24, 0x0},
	{0, false, "c3a4c3b6c3bc", 0xe32d0194, 0x0},
	{0, false, "80ff7f81fe", 0x91a0c67c, 0x0},
	{0, false, "7369787465656e206279746573206f6b", 0x972fc1a4, 0x0},
	{0, false, "736576656e7465656e206279746573206f", 0xa50b9f70, 0x0},
	{0, false, "7468697274792d74776f206279746573206f6620612066696c65206e616d652e", 0x371447e2, 0x0},
	{0, false, "7468697274792d7468726565206279746573206f6620612066696c65206e616d65", 0x1c098b9c, 0x0},
	{0, false, "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", 0xb5b4547a, 0x0},
	{0, false, "787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", 0x30557da6, 0x0},
	{0, false, "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0xb55d5440, 0x0},
	{0, true, "61", 0xe74b53e2, 0x0},
	{0, true, "616263", 0x75afd992, 0x0},
	{0, true, "61626364", 0xfafa23ca, 0x0},
	{0, true, "6c6f73742b666f756e64", 0x5e2aba24, 0x0},
	{0, true, "c3a4c3b6c3bc", 0xe32d0194, 0x0},
	{0, true, "80ff7f81fe", 0x91a0c67c, 0x0},
	{0, true, "7369787465656e206279746573206f6b", 0x972fc1a4, 0x0},
	{0, true, "736576656e7465656e206279746573206f", 0xa50b9f70, 0x0},
	{0, true, "7468697274792d74776f206279746573206f6620612066696c65206e616d652e", 0x371447e2, 0x0},
	{0, true, "7468697274792d7468726565206279746573206f6620612066696c65206e616d65", 0x1c098b9c, 0x0},
	{0, true, "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", 0xb5b4547a, 0x0},
	{0, true, "787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", 0x30557da6, 0x0},
	{0, true, "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0xb55d5440, 0x0},
	{1, false, "61", 0xd5fa7d7a, 0xacb48187},
	{1, false, "616263", 0xd196a868, 0xc420eb28},
	{1, false, "61626364", 0xad7557a8, 0xb1da437c},
	{1, false, "6c6f73742b666f756e64", 0x591de422, 0x6ffc56e0},
	{1, false, "c3a4c3b6c3bc", 0x606c99be, 0x6791b2d1},
	{1, false, "80ff7f81fe", 0x7d39718c, 0xa982839f},
	{1, false, "7369787465656e206279746573206f6b", 0x7dd1970c, 0x3c90563e},
	{1, false, "736576656e7465656e206279746573206f", 0xaacb6c84, 0x4602dda9},
	{1, false, "7468697274792d74776f206279746573206f6620612066696c65206e616d652e", 0x143a4d76, 0x3471093a},
	{1, false, "7468697274792d7468726565206279746573206f6620612066696c65206e616d65", 0x4eb4dbe2, 0xc07eabb5},
	{1, false, "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", 0x8741ac80, 0x67313be},
	{1, false, "787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", 0x2aa7169e, 0x655f9d9c},
	{1, false, "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0x7a9316bc, 0x83411100},
	{1, true, "61", 0x78861710, 0xc87eebbc},
	{1, true, "616263", 0xe705e6aa, 0xa723b6cf},
	{1, true, "61626364", 0xbc320050, 0x2513aa6d},
	{1, true, "6c6f73742b666f756e64", 0x8ff02866, 0xdd80c9ca},
	{1, true, "c3a4c3b6c3bc", 0xa9daf67c, 0xe810ac0e},
	{1, true, "80ff7f81fe", 0x9cba69da, 0x19c2b964},
	{1, true, "7369787465656e206279746573206f6b", 0x66d4e1d8, 0x22d9d3dd},
	{1, true, "736576656e7465656e206279746573206f", 0xaf71f99c, 0x49d1328f},
	{1, true, "7468697274792d74776f206279746573206f6620612066696c65206e616d652e", 0x7a56103e, 0x93c851f5},
	{1, true, "7468697274792d7468726565206279746573206f6620612066696c65206e616d65", 0x6a1ba668, 0xd876acfd},
	{1, true, "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", 0x4f4733e8, 0xd5f7f075},
	{1, true, "787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", 0x867b0756, 0x11c2c43f},
	{1, true, "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0xb36256a0, 0x5cc931f},
	{2, false, "61", 0x6d0ea4c0, 0xc18922df},
	{2, false, "616263", 0xb1435ec4, 0x3f7eaa0e},
	{2, false, "61626364", 0x5a24112e, 0x95442076},
	{2, false, "6c6f73742b666f756e64", 0x2dbf9e80, 0xbfebee4f},
	{2, false, "c3a4c3b6c3bc", 0x18ed4406, 0x613174b0},
	{2, false, "80ff7f81fe", 0x25e4199a, 0x9e54a6a6},
	{2, false, "7369787465656e206279746573206f6b", 0xaa16c954, 0xbed41277},
	{2, false, "736576656e7465656e206279746573206f", 0x677bee3a, 0x7f46dbe1},
	{2, false, "7468697274792d74776f206279746573206f6620612066696c65206e616d652e", 0xc75e8a78, 0x434bd44e},
	{2, false, "7468697274792d7468726565206279746573206f6620612066696c65206e616d65", 0x68e82b78, 0xae20feb2},
	{2, false, "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", 0xf1cbb390, 0x40e2ce1d},
	{2, false, "787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", 0x6c4c00ee, 0xeafdb6b},
	{2, false, "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0xe4cbf300, 0xce658cb3},
	{2, true, "61", 0x8d6fec34, 0x9753ea54},
	{2, true, "616263", 0xe3e48d74, 0x35a880d8},
	{2, true, "61626364", 0xcfcc4060, 0x27d82637},
	{2, true, "6c6f73742b666f756e64", 0xe0658dfa, 0x62de7aec},
	{2, true, "c3a4c3b6c3bc", 0x4699496, 0xfcb3a6a},
	{2, true, "80ff7f81fe", 0xc432b55e, 0x7fa30113},
	{2, true, "7369787465656e206279746573206f6b", 0xa123421c, 0x61e0f78e},
	{2, true, "736576656e7465656e206279746573206f", 0xebfbaf68, 0xf8a5d96e},
	{2, true, "7468697274792d74776f206279746573206f6620612066696c65206e616d652e", 0x6417cd96, 0x476091c0},
	{2, true, "7468697274792d7468726565206279746573206f6620612066696c65206e616d65", 0x16cb4860, 0x415945ad},
	{2, true, "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", 0x52a70ad8, 0xac2990d2},
	{2, true, "787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", 0xcf413d1e, 0xa0ca150d},
	{2, true, "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0xe01b1f9a, 0xbd7706c},
	{3, false, "61", 0xe74b53e2, 0x0},
	{3, false, "616263", 0x75afd992, 0x0},
	{3, false, "61626364", 0xfafa23ca, 0x0},
	{3, false, "6c6f73742b666f756e64", 0x5e2aba24, 0x0},
	{3, false, "c3a4c3b6c3bc", 0xd21e5596, 0x0},
	{3, false, "80ff7f81fe", 0x5aacfeee, 0x0},
	{3, false, "7369787465656e206279746573206f6b", 0x972fc1a4, 0x0},
	{3, false, "736576656e7465656e206279746573206f", 0xa50b9f70, 0x0},
	{3, false, "7468697274792d74776f206279746573206f6620612066696c65206e616d652e", 0x371447e2, 0x0},
	{3, false, "7468697274792d7468726565206279746573206f6620612066696c65206e616d65", 0x1c098b9c, 0x0},
	{3, false, "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", 0xdccc670, 0x0},
	{3, false, "787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", 0x30557da6, 0x0},
	{3, false, "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0x6b5084d4, 0x0},
	{3, true, "61", 0xe74b53e2, 0x0},
	{3, true, "616263", 0x75afd992, 0x0},
	{3, true, "61626364", 0xfafa23ca, 0x0},
	{3, true, "6c6f73742b666f756e64", 0x5e2aba24, 0x0},
	{3, true, "c3a4c3b6c3bc", 0xd21e5596, 0x0},
	{3, true, "80ff7f81fe", 0x5aacfeee, 0x0},
	{3, true, "7369787465656e206279746573206f6b", 0x972fc1a4, 0x0},
	{3, true, "736576656e7465656e206279746573206f", 0xa50b9f70, 0x0},
	{3, true, "7468697274792d74776f206279746573206f6620612066696c65206e616d652e", 0x371447e2, 0x0},
	{3, true, "7468697274792d7468726565206279746573206f6620612066696c65206e616d65", 0x1c098b9c, 0x0},
	{3, true, "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", 0xdccc670, 0x0},
	{3, true, "787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", 0x30557da6, 0x0},
	{3, true, "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0x6b5084d4, 0x0},
	{4, false, "61", 0xd5fa7d7a, 0xacb48187},
	{4, false, "616263", 0xd196a868, 0xc420eb28},
	{4, false, "61626364", 0xad7557a8, 0xb1da437c},
	{4, false, "6c6f73742b666f756e64", 0x591de422, 0x6ffc56e0},
	{4, false, "c3a4c3b6c3bc", 0x3627a640, 0x14ec6ef0},
	{4, false, "80ff7f81fe", 0x2b01195a, 0x3314425b},
	{4, false, "7369787465656e206279746573206f6b", 0x7dd1970c, 0x3c90563e},
	{4, false, "736576656e7465656e206279746573206f", 0xaacb6c84, 0x4602dda9},
	{4, false, "7468697274792d74776f206279746573206f6620612066696c65206e616d652e", 0x143a4d76, 0x3471093a},
	{4, false, "7468697274792d7468726565206279746573206f6620612066696c65206e616d65", 0x4eb4dbe2, 0xc07eabb5},
	{4, false, "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", 0x68f265b6, 0x3bc50836},
	{4, false, "787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", 0x2aa7169e, 0x655f9d9c},
	{4, false, "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0x6b5dd94a, 0x843aadb6},
	{4, true, "61", 0x78861710, 0xc87eebbc},
	{4, true, "616263", 0xe705e6aa, 0xa723b6cf},
	{4, true, "61626364", 0xbc320050, 0x2513aa6d},
	{4, true, "6c6f73742b666f756e64", 0x8ff02866, 0xdd80c9ca},
	{4, true, "c3a4c3b6c3bc", 0xd2dfef4a, 0x995223dd},
	{4, true, "80ff7f81fe", 0xb1de943c, 0xdea9c51},
	{4, true, "7369787465656e206279746573206f6b", 0x66d4e1d8, 0x22d9d3dd},
	{4, true, "736576656e7465656e206279746573206f", 0xaf71f99c, 0x49d1328f},
	{4, true, "7468697274792d74776f206279746573206f6620612066696c65206e616d652e", 0x7a56103e, 0x93c851f5},
	{4, true, "7468697274792d7468726565206279746573206f6620612066696c65206e616d65", 0x6a1ba668, 0xd876acfd},
	{4, true, "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", 0x245e6c78, 0x8b7368e1},
	{4, true, "787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", 0x867b0756, 0x11c2c43f},
	{4, true, "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0x5a34c292, 0x474edbf4},
	{5, false, "61", 0x6d0ea4c0, 0xc18922df},
	{5, false, "616263", 0xb1435ec4, 0x3f7eaa0e},
	{5, false, "61626364", 0x5a24112e, 0x95442076},
	{5, false, "6c6f73742b666f756e64", 0x2dbf9e80, 0xbfebee4f},
	{5, false, "c3a4c3b6c3bc", 0xd1dbd0d4, 0x7130f804},
	{5, false, "80ff7f81fe", 0x3f31559e, 0x4cdfb0d5},
	{5, false, "7369787465656e206279746573206f6b", 0xaa16c954, 0xbed41277},
	{5, false, "736576656e7465656e206279746573206f", 0x677bee3a, 0x7f46dbe1},
	{5, false, "7468697274792d74776f206279746573206f6620612066696c65206e616d652e", 0xc75e8a78, 0x434bd44e},
	{5, false, "7468697274792d7468726565206279746573206f6620612066696c65206e616d65", 0x68e82b78, 0xae20feb2},
	{5, false, "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", 0x844d726c, 0x52f54a0a},
	{5, false, "787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", 0x6c4c00ee, 0xeafdb6b},
	{5, false, "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0xdf3b5a56, 0x831fbf3e},
	{5, true, "61", 0x8d6fec34, 0x9753ea54},
	{5, true, "616263", 0xe3e48d74, 0x35a880d8},
	{5, true, "61626364", 0xcfcc4060, 0x27d82637},
	{5, true, "6c6f73742b666f756e64", 0xe0658dfa, 0x62de7aec},
	{5, true, "c3a4c3b6c3bc", 0xb18a2630, 0x5bb54a64},
	{5, true, "80ff7f81fe", 0x92e50ad8, 0xed347012},
	{5, true, "7369787465656e206279746573206f6b", 0xa123421c, 0x61e0f78e},
	{5, true, "736576656e7465656e206279746573206f", 0xebfbaf68, 0xf8a5d96e},
	{5, true, "7468697274792d74776f206279746573206f6620612066696c65206e616d652e", 0x6417cd96, 0x476091c0},
	{5, true, "7468697274792d7468726565206279746573206f6620612066696c65206e616d65", 0x16cb4860, 0x415945ad},
	{5, true, "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0", 0xf28d175a, 0x3fa2ba1e},
	{5, true, "787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878", 0xcf413d1e, 0xa0ca150d},
	{5, true, "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 0x326ed67c, 0x21493cd2},
}
