package format

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// journalPlaces are the fields of the superblock: name, offset:size.
const journalPlaces = `
	BlockSize       0c:4
	MaxLen          10:4
	First           14:4
	Sequence        18:4
	Start           1c:4
	Errno           20:4
	FeatureCompat   24:4
	FeatureIncompat 28:4
	FeatureROCompat 2c:4
	UUID            30:10
	NrUsers         40:4
	Dynsuper        44:4
	MaxTransaction  48:4
	MaxTransData    4c:4
	ChecksumType    50:1
	NumFCBlocks     54:4
	Head            58:4
`

// Each getter reads its bytes, each setter changes these and no others.
func TestJournalSuperblockFields(t *testing.T) {
	s := JournalSuperblock(fieldBytes(JournalSuperblockSize))
	places := parsePlaces(t, journalPlaces)
	for name, place := range places {
		value := reflect.ValueOf(s).MethodByName(name).Call(nil)[0]
		raw, err := binary.Append(nil, binary.BigEndian, value.Interface())
		require.NoError(t, err)
		require.Equal(t, place.bytes(s), raw, name)

		blank := JournalSuperblock(make([]byte, JournalSuperblockSize))
		want := slices.Clone(blank)
		copy(want[place[0].off:], raw)
		reflect.ValueOf(blank).MethodByName("Set" + name).Call([]reflect.Value{value})
		require.Equal(t, want, blank, "Set%s", name)
	}
	for i := range reflect.TypeOf(s).NumMethod() {
		if name, ok := strings.CutPrefix(reflect.TypeOf(s).Method(i).Name, "Set"); ok && name != "User" {
			require.Contains(t, places, name)
		}
	}
	require.Equal(t, [16]byte(s[0x100:]), s.User(0))
	require.Equal(t, [16]byte(s[0x3f0:]), s.User(MaxJournalUsers-1))
	s.SetUser(2, [16]byte{15: 1})
	require.Equal(t, append(make([]byte, 15), 1), []byte(s[0x120:0x130]))
	require.Equal(t, binary.BigEndian.Uint32(s[0xfc:]), s.Checksum())
}

func TestJournalHeader(t *testing.T) {
	b := unhex(t, "c03b3998 01020304 11121314")
	h, ok := ReadJournalHeader(b)
	require.True(t, ok)
	require.Equal(t, JournalHeader{Type: 0x01020304, Sequence: 0x11121314}, h)
	again := make([]byte, 12)
	PutJournalHeader(again, h)
	require.Equal(t, b, again)
	b[3]++
	_, ok = ReadJournalHeader(b)
	require.False(t, ok)
	_, ok = ReadJournalHeader(b[:11])
	require.False(t, ok)
}

// journal returns the superblock of a journal with 2,048 blocks of 4 KiB.
func journal(f JournalIncompat) JournalSuperblock {
	s := JournalSuperblock(make([]byte, JournalSuperblockSize))
	PutEmptyJournalSuperblock(s, 4096, 2048, [16]byte(fieldBytes(16)))
	s.SetFeatureIncompat(f)
	if f&journalCsumV23 != 0 {
		s.SetChecksumType(JournalCrc32c)
	}
	s.Seal()
	return s
}

func TestCheckJournalSuperblock(t *testing.T) {
	const csum3 = JournalIncompatCsumV3
	for _, c := range []struct {
		name   string
		f      JournalIncompat
		change func(s JournalSuperblock)
		want   string
	}{
		{"new", 0, nil, ""},
		{"all features", journalKnown &^ JournalIncompatCsumV2, nil, ""},
		{"magic", 0, func(s JournalSuperblock) { s[0] = 0 }, "journal superblock at 0x0: magic 0x3b3998, want 0xc03b3998"},
		{"type", 0, func(s JournalSuperblock) { s[7] = 2 }, "journal superblock at 0x4: type 2, want 3 or 4"},
		{"unknown", 0, func(s JournalSuperblock) { s.SetFeatureIncompat(1<<6 | 1<<31) }, "not supported: journal features FEATURE_I6 FEATURE_I31"},
		{"ro_compat", 0, func(s JournalSuperblock) { s.SetFeatureROCompat(2) }, "not supported: journal ro_compat features 0x2"},
		{"v1 ignores features", 0, func(s JournalSuperblock) { s[7] = 3; s.SetFeatureIncompat(1 << 31) }, ""},
		{"v2 and v3", 0, func(s JournalSuperblock) { s.SetFeatureIncompat(journalCsumV23) }, "journal superblock at 0x28: csum v2 and v3 at once"},
		{"v1 and v3", csum3, func(s JournalSuperblock) { s.SetFeatureCompat(JournalCompatChecksum) }, "journal superblock at 0x24: csum v1 beside v2 or v3"},
		{"kind of checksum", csum3, func(s JournalSuperblock) { s.SetChecksumType(1) }, "journal superblock at 0x50: checksum type 1, want 4"},
		{"checksum", csum3, func(s JournalSuperblock) { s.SetErrno(-5) }, "journal superblock at 0xfc: checksum"},
		{"block size", 0, func(s JournalSuperblock) { s.SetBlockSize(1024) }, "journal superblock at 0xc: block size 1024, want 4096"},
		{"too long", 0, func(s JournalSuperblock) { s.SetMaxLen(2049) }, "journal superblock at 0x10: 2049 blocks, want 1024 to 2048"},
		{"too short", 0, func(s JournalSuperblock) { s.SetMaxLen(1023) }, "journal superblock at 0x10: 1023 blocks, want 1024 to 2048"},
		{"first", 0, func(s JournalSuperblock) { s.SetFirst(0) }, "journal superblock at 0x14: log begins at 0, want 1 to 2047"},
		{"first behind", 0, func(s JournalSuperblock) { s.SetFirst(2048) }, "journal superblock at 0x14: log begins at 2048, want 1 to 2047"},
		{"start", 0, func(s JournalSuperblock) { s.SetStart(2048) }, "journal superblock at 0x1c: log starts at 2048, want 1 to 2047"},
		{"start before", 0, func(s JournalSuperblock) { s.SetFirst(5); s.SetStart(4) }, "journal superblock at 0x1c: log starts at 4, want 5 to 2047"},
		{"fast commits", JournalIncompatFastCommit, func(s JournalSuperblock) { s.SetNumFCBlocks(1025) }, "journal superblock at 0x54: 1025 fast-commit blocks leave less than 1024 of 2048"},
		{"start in fast commits", JournalIncompatFastCommit, func(s JournalSuperblock) { s.SetStart(1792) }, "journal superblock at 0x1c: log starts at 1792, want 1 to 1791"},
	} {
		s := journal(c.f)
		if c.change != nil {
			c.change(s)
		}
		err := CheckJournalSuperblock(s, 4096, 2048)
		if c.want == "" {
			require.NoError(t, err, c.name)
			continue
		}
		require.ErrorContains(t, err, c.want, c.name)
		require.Equal(t, strings.HasPrefix(c.want, "not supported"), bytes.Contains([]byte(err.Error()), []byte("not supported")), c.name)
	}
	require.ErrorIs(t, CheckJournalSuperblock(make([]byte, 1023), 4096, 2048), ErrDamaged)
}

func TestFastCommitArea(t *testing.T) {
	s := journal(JournalIncompatFastCommit)
	require.EqualValues(t, 2048-256, s.LogEnd())
	first, end := s.FastCommitArea()
	require.Equal(t, []uint32{2048 - 255, 2048}, []uint32{first, end})
	s.SetNumFCBlocks(16)
	require.EqualValues(t, 2032, s.LogEnd())
	s.SetNumFCBlocks(0xFFFFFFFF)
	require.EqualValues(t, 2048, s.LogEnd())
	s.SetFeatureIncompat(0)
	first, end = s.FastCommitArea()
	require.Equal(t, []uint32{0, 0, 2048}, []uint32{first, end, s.LogEnd()})
}

// journalFormats are all tag formats.
func journalFormats() []JournalFormat {
	var list []JournalFormat
	for _, size := range []int{1024, 4096} {
		for csum := range 4 {
			list = append(list, JournalFormat{BlockSize: size, Csum: csum, Seed: 77}, JournalFormat{BlockSize: size, Csum: csum, Seed: 77, Wide: true})
		}
	}
	return list
}

func TestJournalFormatOf(t *testing.T) {
	uuid := fieldBytes(16)
	want := JournalFormat{BlockSize: 4096, Seed: Crc32c(allOnes, uuid)}
	require.Equal(t, want, journal(0).Format())
	s := journal(JournalIncompatCsumV2 | JournalIncompat64Bit)
	want.Csum, want.Wide = 2, true
	require.Equal(t, want, s.Format())
	want.Csum = 3
	require.Equal(t, want, journal(JournalIncompatCsumV3|JournalIncompat64Bit).Format())
	s = journal(0)
	s.SetFeatureCompat(JournalCompatChecksum)
	want.Csum, want.Wide = 1, false
	require.Equal(t, want, s.Format())
	s[7] = JournalSuperblockV1
	want.Csum = 0
	require.Equal(t, want, s.Format())
}

func TestTagBytes(t *testing.T) {
	var sizes []int
	for csum := range 4 {
		sizes = append(sizes, JournalFormat{Csum: csum}.TagBytes(), JournalFormat{Csum: csum, Wide: true}.TagBytes())
	}
	require.Equal(t, []int{8, 12, 8, 12, 10, 14, 16, 16}, sizes)
}

// The bytes of one tag in each format.
func TestTagFields(t *testing.T) {
	tag := JournalTag{Block: 0x0102_03040506, Flags: 0x1112, Checksum: 0x21222324}
	for _, c := range []struct {
		f    JournalFormat
		want string
	}{
		{JournalFormat{}, "03040506 0000 1112"},
		{JournalFormat{Wide: true}, "03040506 0000 1112 00000102"},
		{JournalFormat{Csum: 1, Wide: true}, "03040506 0000 1112 00000102"},
		{JournalFormat{Csum: 2}, "03040506 2324 1112 0000"},
		{JournalFormat{Csum: 2, Wide: true}, "03040506 2324 1112 00000102 0000"},
		{JournalFormat{Csum: 3}, "03040506 00001112 00000000 21222324"},
		{JournalFormat{Csum: 3, Wide: true}, "03040506 00001112 00000102 21222324"},
	} {
		b := make([]byte, c.f.TagBytes())
		c.f.putTag(b, tag)
		require.Equal(t, unhex(t, c.want), b, "%+v", c.f)
		want := tag
		if !c.f.Wide {
			want.Block &= 0xFFFFFFFF
		}
		switch c.f.Csum {
		case 0, 1:
			want.Checksum = 0
		case 2:
			want.Checksum &= 0xFFFF
		}
		require.Equal(t, want, c.f.tag(b, 0), "%+v", c.f)
	}
}

func TestDescriptorRoundTrip(t *testing.T) {
	for _, f := range journalFormats() {
		block := make([]byte, f.BlockSize)
		uuid := [16]byte(fieldBytes(16))
		d := f.NewDescriptor(block, 42, uuid)
		var want []JournalTag
		for i := 0; !d.Full(); i++ {
			tag := JournalTag{Block: Block(1000 + i), Offset: d.off}
			if f.Csum >= 2 {
				tag.Checksum = uint32(i)
			}
			if i%3 == 0 {
				tag.Flags |= JournalTagEscape
			}
			if i > 0 {
				tag.Flags |= JournalTagSameUUID
			}
			d.Add(tag.Block, i%3 == 0, uint32(i))
			want = append(want, tag)
		}
		d.Close()
		want[len(want)-1].Flags |= JournalTagLast
		require.Equal(t, want, slices.Collect(f.Tags(block)), "%+v", f)
		require.Len(t, want, f.TagsPerDescriptor(), "%+v", f)
		require.Equal(t, uuid[:], block[12+f.TagBytes():][:16])
		require.True(t, f.VerifyTail(block))
		block[20] ^= 1
		require.Equal(t, f.Csum < 2, f.VerifyTail(block))
	}
}

// A tag without SAME_UUID is followed by 16 bytes wherever it stands, and a
// block without a last tag ends at the tail.
func TestTagsWithoutEnd(t *testing.T) {
	for _, f := range journalFormats() {
		block := make([]byte, f.BlockSize)
		n := 0
		for tag := range f.Tags(block) {
			require.Equal(t, 12+n*(f.TagBytes()+16), tag.Offset)
			require.LessOrEqual(t, tag.Offset+f.TagBytes(), f.BlockSize-f.tail())
			n++
		}
		require.Positive(t, n)
		for range f.Tags(block) {
			break
		}
	}
}

func TestTagSum(t *testing.T) {
	data := fieldBytes(1024)
	seed := Crc32c(77, []byte{1, 2, 3, 4})
	require.Zero(t, JournalFormat{Csum: 1, Seed: 77}.TagSum(0x01020304, data))
	require.Equal(t, Crc32c(seed, data), JournalFormat{Csum: 3, Seed: 77}.TagSum(0x01020304, data))
	f := JournalFormat{Csum: 2, Seed: 77}
	require.Equal(t, Crc32c(seed, data)&0xFFFF, f.TagSum(0x01020304, data))
	require.True(t, f.VerifyTag(JournalTag{Checksum: f.TagSum(9, data)}, 9, data))
	require.False(t, f.VerifyTag(JournalTag{Checksum: f.TagSum(9, data)}, 8, data))
}

func TestJournalEscape(t *testing.T) {
	data := unhex(t, "c03b3998 01020304")
	require.True(t, EscapeJournalBlock(data))
	require.Equal(t, unhex(t, "00000000 01020304"), data)
	require.False(t, EscapeJournalBlock(data))
	UnescapeJournalBlock(data)
	require.Equal(t, unhex(t, "c03b3998 01020304"), data)
}

func collectRevokes(f JournalFormat, block []byte) (list []Block, err error) {
	for b, e := range f.Revokes(block) {
		if e != nil {
			return list, e
		}
		list = append(list, b)
	}
	return list, nil
}

func TestRevokes(t *testing.T) {
	blocks := make([]Block, 2000)
	for i := range blocks {
		blocks[i] = Block(i + 5)
	}
	for _, f := range journalFormats() {
		block := make([]byte, f.BlockSize)
		n := f.PutRevokes(block, 7, blocks)
		require.Equal(t, f.RevokesPerBlock(), n)
		got, err := collectRevokes(f, block)
		require.NoError(t, err)
		require.Equal(t, blocks[:n], got)
		require.True(t, f.VerifyTail(block))

		jrCount.put(block, uint32(f.BlockSize-f.tail()+1))
		_, err = collectRevokes(f, block)
		require.ErrorIs(t, err, ErrDamaged)
		jrCount.put(block, 0xFFFFFFFF)
		_, err = collectRevokes(f, block)
		require.ErrorIs(t, err, ErrDamaged)
		jrCount.put(block, 3)
		got, err = collectRevokes(f, block)
		require.NoError(t, err)
		require.Empty(t, got)
	}
	wide := JournalFormat{BlockSize: 1024, Wide: true}
	block := make([]byte, 1024)
	require.Equal(t, 1, wide.PutRevokes(block, 7, []Block{0x0102_03040506}))
	require.Equal(t, unhex(t, "c03b3998 00000005 00000007 00000018 0000010203040506"), block[:24])
	require.Equal(t, 252, JournalFormat{BlockSize: 1024}.RevokesPerBlock())
	require.Equal(t, 125, JournalFormat{BlockSize: 1024, Wide: true, Csum: 3}.RevokesPerBlock())
}

func TestCommitBlock(t *testing.T) {
	block := make([]byte, 1024)
	JournalFormat{}.PutCommit(block, 0x01020304, 0x1112131415161718, 0x21222324, 9)
	require.Equal(t, unhex(t, "c03b3998 00000002 01020304 00000000"), block[:16])
	require.Equal(t, unhex(t, "1112131415161718 21222324"), block[0x30:0x3c])
	c := CommitBlock(block)
	require.Equal(t, uint64(0x1112131415161718), c.Sec())
	require.Equal(t, uint32(0x21222324), c.Nsec())
	require.Zero(t, c.Checksum())
	require.True(t, JournalFormat{}.VerifyCommit(block, 1))

	v1 := JournalFormat{Csum: 1}
	require.True(t, v1.VerifyCommit(block, 1), "no checksum at all")
	v1.PutCommit(block, 1, 2, 3, 0xAABBCCDD)
	require.Equal(t, unhex(t, "01040000 aabbccdd"), block[0x0c:0x14])
	require.True(t, v1.VerifyCommit(block, 0xAABBCCDD))
	require.False(t, v1.VerifyCommit(block, 0xAABBCCDE))

	v3 := JournalFormat{Csum: 3, Seed: 5}
	v3.PutCommit(block, 1, 2, 3, 0)
	require.True(t, v3.VerifyCommit(block, 0))
	require.True(t, v3.VerifyCommitHeader(block))
	block[700] = 1 // the second sector is old
	require.False(t, v3.VerifyCommit(block, 0))
	require.True(t, v3.VerifyCommitHeader(block))
	block[0x30] ^= 1
	require.False(t, v3.VerifyCommitHeader(block))
	require.False(t, v1.VerifyCommitHeader(block))
}

// The same polynomial lies in hash/crc32 with the bits the other way round.
func TestJournalCRC(t *testing.T) {
	data := fieldBytes(1000)
	mirrored := make([]byte, len(data))
	for i, v := range data {
		mirrored[i] = bits.Reverse8(v)
	}
	want := bits.Reverse32(^crc32.ChecksumIEEE(mirrored))
	require.Equal(t, want, JournalCRC(allOnes, data))
	require.Equal(t, want, JournalCRC(JournalCRC(allOnes, data[:333]), data[333:]))
}

func TestRevokeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(journalFormats()).Draw(t, "format")
		most := uint64(1<<32 - 1)
		if f.Wide {
			most = 1<<48 - 1
		}
		var blocks []Block
		for _, b := range rapid.SliceOfN(rapid.Uint64Max(most), 0, f.RevokesPerBlock()).Draw(t, "blocks") {
			blocks = append(blocks, Block(b))
		}
		block := make([]byte, f.BlockSize)
		require.Equal(t, len(blocks), f.PutRevokes(block, 1, blocks))
		got, err := collectRevokes(f, block)
		require.NoError(t, err)
		require.Equal(t, blocks, got)
	})
}

// FuzzJournalDescriptor takes the same bytes as descriptor, revoke block,
// commit and superblock in every format.
func FuzzJournalDescriptor(f *testing.F) {
	for _, form := range journalFormats() {
		block := make([]byte, form.BlockSize)
		d := form.NewDescriptor(block, 3, [16]byte{1})
		d.Add(5, false, 6)
		d.Add(7, true, 8)
		d.Close()
		f.Add(block)
	}
	f.Add([]byte(journal(JournalIncompatCsumV3)))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = CheckJournalSuperblock(b, 4096, 2048)
		if len(b) < 64 {
			return
		}
		for _, form := range journalFormats() {
			n := 0
			for tag := range form.Tags(b) {
				n++
				require.Less(t, tag.Offset, len(b))
			}
			require.LessOrEqual(t, n, len(b)/8)
			revokes, err := collectRevokes(form, b)
			require.LessOrEqual(t, len(revokes), len(b)/4)
			require.True(t, err == nil || len(revokes) == 0)
			form.VerifyTail(b)
			form.VerifyCommit(b, 0)
			form.VerifyCommitHeader(b)
		}
	})
}
