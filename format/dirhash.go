package format

import (
	"encoding/binary"
	"math/bits"
)

// Hash versions of an htree. The first three are stored in the root block;
// adding HashUnsigned gives the variant that takes bytes as unsigned, which
// FlagUnsignedHash in the superblock asks for and which is stored nowhere.
const (
	HashLegacy  uint8 = 0
	HashHalfMD4 uint8 = 1
	HashTea     uint8 = 2

	HashUnsigned        uint8 = 3 // added to one of the above
	HashLegacyUnsigned        = HashLegacy + HashUnsigned
	HashHalfMD4Unsigned       = HashHalfMD4 + HashUnsigned
	HashTeaUnsigned           = HashTea + HashUnsigned

	HashSipHash uint8 = 6 // casefolded and encrypted: needs the key, cannot be computed here
)

// hashEnd is the hash at which the kernel, walking a directory by hash, sees
// its end. A name that would have it gets MaxDirHash.
const hashEnd = 0xFFFFFFFE

// MaxDirHash is the highest hash of a name. e2fsck knows one more, hashEnd.
const MaxDirHash = hashEnd - 2

// ValidHashVersion reports whether DirHash can compute version.
func ValidHashVersion(version uint8) bool { return version <= HashTeaUnsigned }

// DirHash returns the place of name in an htree: the hash that the index
// holds, bit 0 clear, and the minor hash that orders names of equal hash (0
// for the legacy hashes). seed is the superblock's s_hash_seed; all zero
// means the built-in one. A version that is not ValidHashVersion gives zeros.
//
// Source: kernel doc ext4/directory, "Hash Tree Directories".
func DirHash(version uint8, seed [16]byte, name []byte) (hash, minor uint32) {
	signed := version < HashUnsigned
	switch version {
	case HashLegacy, HashLegacyUnsigned:
		hash = legacyHash(name, signed)
	case HashHalfMD4, HashHalfMD4Unsigned:
		hash, minor = halfMD4Hash(hashState(seed), name, signed)
	case HashTea, HashTeaUnsigned:
		hash, minor = teaHash(hashState(seed), name, signed)
	}
	return hashOffEnd(hash &^ 1), minor
}

func hashOffEnd(hash uint32) uint32 {
	if hash == hashEnd {
		return MaxDirHash
	}
	return hash
}

// hashState is the four words that hashing starts from.
func hashState(seed [16]byte) [4]uint32 {
	if seed == ([16]byte{}) {
		return [4]uint32{0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476} // as MD4 starts
	}
	var s [4]uint32
	for i := range s {
		s[i] = binary.LittleEndian.Uint32(seed[4*i:])
	}
	return s
}

func legacyHash(name []byte, signed bool) uint32 {
	const factor = 7152373
	last, hash := uint32(0x37ABE8F9), uint32(0x12A3FE2D)
	for _, c := range name {
		v := uint32(c)
		if signed {
			v = uint32(int8(c))
		}
		next := last + (hash ^ v*factor)
		if next&(1<<31) != 0 {
			next -= 1<<31 - 1
		}
		last, hash = hash, next
	}
	return hash << 1
}

func halfMD4Hash(s [4]uint32, name []byte, signed bool) (hash, minor uint32) {
	var words [8]uint32
	for ; len(name) > 0; name = name[min(32, len(name)):] {
		packName(words[:], name, signed)
		halfMD4(&s, &words)
	}
	return s[1], s[2]
}

func teaHash(s [4]uint32, name []byte, signed bool) (hash, minor uint32) {
	var words [4]uint32
	for ; len(name) > 0; name = name[min(16, len(name)):] {
		packName(words[:], name, signed)
		tea(&s, &words)
	}
	return s[0], s[1]
}

// packName fills words with the next bytes of a name, four to a word, first
// byte highest. What a name has not got comes from its length, in every byte.
func packName(words []uint32, name []byte, signed bool) {
	pad := uint32(len(name)) * 0x01010101
	for i := range words {
		if len(name) >= 4 {
			words[i] = packWord(0, binary.BigEndian.Uint32(name), signed)
			name = name[4:]
			continue
		}
		words[i] = packRest(pad, name, signed)
		name = nil
	}
}

// packRest packs fewer than four bytes; the pad stays above them.
func packRest(pad uint32, rest []byte, signed bool) uint32 {
	var v uint32
	for _, c := range rest {
		v = v<<8 | uint32(c)
	}
	return packWord(pad<<(8*len(rest)), v, signed)
}

// packWord adds the bytes in v to high. A signed byte of 0x80 and up counts
// 256 less, which is one less in the byte above it.
func packWord(high, v uint32, signed bool) uint32 {
	if signed {
		v -= (v & 0x80808080) << 1
	}
	return high + v
}

// halfMD4 mixes 32 bytes into s: three rounds of MD4, each with half of the steps.
func halfMD4(s *[4]uint32, in *[8]uint32) {
	const (
		k2 = 0x5A827999 // sqrt(2)
		k3 = 0x6ED9EBA1 // sqrt(3)
	)
	a, b, c, d := s[0], s[1], s[2], s[3]

	a = md4Select(a, b, c, d, in[0], 3)
	d = md4Select(d, a, b, c, in[1], 7)
	c = md4Select(c, d, a, b, in[2], 11)
	b = md4Select(b, c, d, a, in[3], 19)
	a = md4Select(a, b, c, d, in[4], 3)
	d = md4Select(d, a, b, c, in[5], 7)
	c = md4Select(c, d, a, b, in[6], 11)
	b = md4Select(b, c, d, a, in[7], 19)

	a = md4Majority(a, b, c, d, in[1]+k2, 3)
	d = md4Majority(d, a, b, c, in[3]+k2, 5)
	c = md4Majority(c, d, a, b, in[5]+k2, 9)
	b = md4Majority(b, c, d, a, in[7]+k2, 13)
	a = md4Majority(a, b, c, d, in[0]+k2, 3)
	d = md4Majority(d, a, b, c, in[2]+k2, 5)
	c = md4Majority(c, d, a, b, in[4]+k2, 9)
	b = md4Majority(b, c, d, a, in[6]+k2, 13)

	a = md4Parity(a, b, c, d, in[3]+k3, 3)
	d = md4Parity(d, a, b, c, in[7]+k3, 9)
	c = md4Parity(c, d, a, b, in[2]+k3, 11)
	b = md4Parity(b, c, d, a, in[6]+k3, 15)
	a = md4Parity(a, b, c, d, in[1]+k3, 3)
	d = md4Parity(d, a, b, c, in[5]+k3, 9)
	c = md4Parity(c, d, a, b, in[0]+k3, 11)
	b = md4Parity(b, c, d, a, in[4]+k3, 15)

	s[0], s[1], s[2], s[3] = s[0]+a, s[1]+b, s[2]+c, s[3]+d
}

// The steps of MD4 wait for b, which the step before has just made, so b
// comes in last.

func md4Select(a, b, c, d, x uint32, shift int) uint32 {
	return bits.RotateLeft32(a+x+(d^b&(c^d)), shift)
}

func md4Majority(a, b, c, d, x uint32, shift int) uint32 {
	return bits.RotateLeft32(a+x+(c&d|b&(c|d)), shift)
}

func md4Parity(a, b, c, d, x uint32, shift int) uint32 {
	return bits.RotateLeft32(a+x+(b^(c^d)), shift)
}

// tea mixes 16 bytes into the first two words of s: they are enciphered with
// the bytes as the key and added to what they were.
func tea(s *[4]uint32, key *[4]uint32) {
	const (
		delta  = 0x9E3779B9
		rounds = 16
	)
	x, y, sum := s[0], s[1], uint32(0)
	for range rounds {
		sum += delta
		x += (y<<4 + key[0]) ^ (y + sum) ^ (y>>5 + key[1])
		y += (x<<4 + key[2]) ^ (x + sum) ^ (x>>5 + key[3])
	}
	s[0] += x
	s[1] += y
}
