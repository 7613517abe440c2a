package format_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drydock/format"
	"drydock/internal/oracle"

	"github.com/stretchr/testify/require"
)

// Fields by the names of debugfs and of this package. Those without an own name
// here are spelled alike: inodes_count is InodesCount.
var debugfsNames = map[string]string{
	"log_block_size": "LogBlockSize", "max_mnt_count": "MaxMntCount", "checkinterval": "CheckInterval",
	"creator_os": "CreatorOS", "feature_ro_compat": "FeatureROCompat", "reserved_gdt_blocks": "ReservedGDTBlocks",
	"mmp_interval": "MMPInterval", "mmp_block": "MMPBlock", "snapshot_id": "SnapshotID",
	"overhead_clusters": "OverheadBlocks", "lpf_ino": "LpfIno", "orphan_file_inum": "OrphanFileInum",
	"snapshot_r_blocks_count": "SnapshotRBlocksCount", "r_blocks_count": "RBlocksCount",
	"mtime": "Mtime", "wtime": "", "checksum": "", "hash_seed": "HashSeed", "uuid": "UUID",
	"journal_uuid": "JournalUUID", "def_hash_version": "", "encoding": "", "jnl_blocks[17]": "",
	"backup_bgs[2]": "", "encrypt_algos[4]": "",
	// inode
	"uid": "UID", "gid": "GID", "blocks": "BlocksRaw", "file_acl": "FileACL", "faddr": "ObsoFaddr",
	"translator": "", "frag": "", "fsize": "", "author": "", "bmap[]": "", "block[12]": "", "block[IND]": "",
	"block[DIND]": "", "block[TIND]": "", "ctime_extra": "", "mtime_extra": "", "atime_extra": "", "crtime_extra": "",
	"atime": "", "ctime": "", "crtime": "",
}

// Setting one of these makes debugfs lay the image out anew, or fail on closing.
var debugfsBreaks = []string{"desc_size", "inode_size", "log_cluster_size", "block_group_nr"}

// namedField is one field as debugfs lists it.
type namedField struct {
	debugfs, method, kind string
	bits                  int // most that the field has; 0 for those of its type
}

// listFields is what a command of debugfs such as "ssv -l" lists, with our names.
func listFields(t *testing.T, image, command string, times bool) (list []namedField) {
	t.Helper()
	for line := range strings.Lines(oracle.Debugfs(t, image, command)) {
		words := strings.Fields(line)
		if !strings.HasPrefix(line, "\t") || len(words) < 2 {
			continue
		}
		name, _, _ := strings.Cut(words[0], "[_hi")
		method, known := debugfsNames[name]
		if !known || times && slices.Contains([]string{"atime", "ctime", "mtime", "crtime"}, name) {
			method = camelCase(name)
		} else if name == "mtime" && !strings.HasPrefix(command, "ssv") {
			continue
		}
		if method != "" && !slices.Contains(debugfsBreaks, name) {
			list = append(list, namedField{debugfs: name, method: method, kind: strings.Join(words[1:], " ")})
		}
	}
	require.NotEmpty(t, list)
	return list
}

func camelCase(name string) string {
	var b strings.Builder
	for _, word := range strings.Split(name, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	s := b.String()
	if last, ok := strings.CutSuffix(s, "Uuid"); ok {
		return last + "UUID"
	}
	return s
}

// debugfsBits is how many bits debugfs sets where it is fewer than we have: times of
// the superblock and owners of the reserved blocks.
var debugfsBits = map[string]int{
	"def_resuid": 16, "def_resgid": 16, "blocks": 48, "file_acl": 48,
	"mtime": 32, "lastcheck": 32, "mkfs_time": 32, "first_error_time": 32, "last_error_time": 32,
}

// debugfsValue is a value that tells the bytes of a field apart, for debugfs and
// as the setter takes it.
func debugfsValue(field namedField, to reflect.Type) (word string, value reflect.Value) {
	value = reflect.New(to).Elem()
	switch field.kind {
	case "UUID":
		id := []byte("\xa1\xb2\xc3\xd4\xe5\xf6\x07\x18\x29\x3a\x4b\x5c\x6d\x7e\x8f\x90")
		reflect.Copy(value, reflect.ValueOf(id))
		return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), value
	case "string":
		value.SetString("word")
		return "word", value
	}
	bits := to.Bits()
	for _, most := range []int{field.bits, debugfsBits[field.debugfs]} {
		if most != 0 {
			bits = min(bits, most)
		}
	}
	n := uint64(0x1122334455667788) >> (64 - bits)
	value.SetUint(n)
	if field.kind == "date/time" {
		return "@" + strconv.FormatUint(n, 10), value
	}
	return strconv.FormatUint(n, 10), value
}

// thorough reports whether oracles are required; otherwise tests ask them about a
// part of the cases only, to be quick.
func thorough() bool { return os.Getenv("DRYDOCK_ORACLES") == "require" }

// checkAgainst sets each field once with debugfs in a copy of the image and once
// with our setter in the bytes that cut gives, and wants the same bytes. ignore
// clears what debugfs changes by itself.
func checkAgainst(t *testing.T, image string, fields []namedField, command string,
	cut func(b []byte) []byte, view reflect.Type, ignore func(b []byte)) {
	t.Helper()
	before, err := os.ReadFile(image)
	require.NoError(t, err)
	copyPath := filepath.Join(t.TempDir(), "copy")
	for i, field := range fields {
		if i%6 != 0 && !thorough() {
			continue
		}
		t.Run(field.debugfs, func(t *testing.T) {
			setter, ok := view.MethodByName("Set" + field.method)
			require.True(t, ok, "Set%s", field.method)
			word, value := debugfsValue(field, setter.Type.In(1))
			require.NoError(t, os.WriteFile(copyPath, before, 0o600))
			oracle.Run(t, "debugfs", "-w", "-R", fmt.Sprintf(command, field.debugfs, word), copyPath)
			after := readStart(t, copyPath, len(before))
			want := cut(after)
			got := slices.Clone(cut(before))
			require.NotEqual(t, want, got, "debugfs changed nothing")
			setter.Func.Call([]reflect.Value{reflect.ValueOf(got).Convert(view), value})
			ignore(want)
			ignore(got)
			require.Equal(t, want, got)
		})
	}
}

// readStart is the first n bytes of a file, which debugfs may have made huge.
func readStart(t *testing.T, path string, n int) []byte {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	b := make([]byte, n)
	_, err = io.ReadFull(file, b)
	require.NoError(t, err)
	return b
}

// smallImage is an image of a few groups in a small file, without checksums.
func smallImage(t *testing.T, features string) string {
	t.Helper()
	return makeImage(t, "512K", "-t", "ext4", "-b", "1024", "-I", "256", "-N", "16", "-O", "^has_journal,^resize_inode,"+features)
}

func TestOracleSuperblockNames(t *testing.T) {
	oracle.Need(t, "mke2fs", "debugfs")
	image := smallImage(t, "^metadata_csum,64bit")
	fields := listFields(t, image, "ssv -l", false)
	checkAgainst(t, image, fields, "ssv %s %s",
		func(b []byte) []byte { return b[1024:2048] }, reflect.TypeFor[format.Superblock](),
		func(b []byte) {
			sb := format.Superblock(b)
			sb.SetWtime(0)
			sb.SetKbytesWritten(sb.KbytesWritten() & 0xffffffff00000000)
		})
}

func TestOracleGroupDescNames(t *testing.T) {
	oracle.Need(t, "mke2fs", "debugfs")
	for _, test := range []struct {
		features string
		size     int
	}{{"^metadata_csum,64bit", 64}, {"^metadata_csum,^64bit", 32}} {
		image := smallImage(t, test.features)
		var fields []namedField
		for _, field := range listFields(t, image, "set_bg -l", false) {
			if test.size == 32 { // no high halves
				field.bits = 16
			}
			fields = append(fields, field)
		}
		checkAgainst(t, image, fields, "set_bg 0 %s %s",
			func(b []byte) []byte { return b[2048 : 2048+test.size] }, reflect.TypeFor[format.GroupDesc](),
			func([]byte) {})
	}
}

func TestOracleInodeNames(t *testing.T) {
	oracle.Need(t, "mke2fs", "debugfs")
	image := smallImage(t, "^metadata_csum,64bit")
	im := openImage(t, image)
	_, off := im.inode(t, 12)
	oracle.Run(t, "debugfs", "-w", "-R", "sif <12> extra_isize 32", image)
	checkAgainst(t, image, listFields(t, image, "sif -l", false), "sif <12> %s %s",
		func(b []byte) []byte { return b[off : off+256] }, reflect.TypeFor[format.Inode](), func([]byte) {})
}

// debugfs agrees on how the times of an inode are stored, at all boundaries.
func TestOracleInodeTimeNames(t *testing.T) {
	oracle.Need(t, "mke2fs", "debugfs")
	image := smallImage(t, "^metadata_csum,64bit")
	im := openImage(t, image)
	oracle.Run(t, "debugfs", "-w", "-R", "sif <12> extra_isize 32", image)
	setters := map[string]func(format.Inode, format.Time){
		"atime": format.Inode.SetAtime, "ctime": format.Inode.SetCtime,
		"mtime": format.Inode.SetMtime, "crtime": format.Inode.SetCrtime,
	}
	for i, sec := range timeBoundaries {
		if sec == -1 || i%4 != 0 && !thorough() {
			continue // debugfs takes @-1 for no time
		}
		for name, set := range setters {
			oracle.Run(t, "debugfs", "-w", "-R", fmt.Sprintf("sif <12> %s_extra 0", name), image)
			oracle.Run(t, "debugfs", "-w", "-R", fmt.Sprintf("sif <12> %s @%d", name, sec), image)
			n, _ := im.inode(t, 12)
			want := slices.Clone(n)
			set(n, format.Time{Sec: sec})
			require.Equal(t, want, n, "%s %d", name, sec)
		}
	}
}

// timeBoundaries is the seconds around each change of the encoding.
var timeBoundaries = []int64{
	-1 << 31, -315619200, -1, 0, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 2<<32 - 1, 2 << 32, 3 << 32, 3<<32 + 1<<31 - 1,
}

// The kernel reads the times that we store, and our checksum of the inode.
func TestOracleInodeTimesMounted(t *testing.T) {
	oracle.Need(t, "mke2fs", "e2fsck")
	oracle.Root(t)
	source := t.TempDir()
	for i := range timeBoundaries {
		require.NoError(t, os.WriteFile(filepath.Join(source, fmt.Sprint("f", i)), nil, 0o600))
	}
	image := makeImage(t, "8M", "-t", "ext4", "-b", "4096", "-d", source)
	im := openImage(t, image)
	for i, sec := range timeBoundaries {
		stat := strings.Fields(oracle.Debugfs(t, image, fmt.Sprint("stat /f", i)))
		ino, err := strconv.Atoi(stat[1])
		require.NoError(t, err)
		n, off := im.inode(t, format.Ino(ino))
		require.True(t, im.sums.VerifyInode(format.Ino(ino), n))
		n.SetMtime(format.Time{Sec: sec, Nsec: uint32(1000 + i)})
		n.SetCtime(format.Time{Sec: sec, Nsec: uint32(2000 + i)})
		im.sums.SealInode(format.Ino(ino), n)
		_, err = im.file.WriteAt(n, off)
		require.NoError(t, err)
	}
	oracle.Fsck(t, image)
	dir := oracle.Mount(t, image, "ro")
	for i, sec := range timeBoundaries {
		info, err := os.Stat(filepath.Join(dir, fmt.Sprint("f", i)))
		require.NoError(t, err)
		require.Equal(t, format.Time{Sec: sec, Nsec: uint32(1000 + i)}, format.TimeOf(info.ModTime()))
	}
}
