package main

import (
	"fmt"
	"io/fs"
	"strings"
	"time"

	"drydock/ext4"
	"drydock/format"
)

// facts is what ls, tree and stat say of one name. The JSON names are a contract.
type facts struct {
	Path   string      `json:"path"`
	Type   string      `json:"type"`
	Mode   string      `json:"mode"` // octal permissions with setuid, setgid and sticky
	Ino    format.Ino  `json:"ino"`
	Nlink  uint32      `json:"nlink"`
	UID    uint32      `json:"uid"`
	GID    uint32      `json:"gid"`
	Size   int64       `json:"size"`
	Blocks uint64      `json:"blocks"` // of 512 bytes
	Device string      `json:"device,omitempty"`
	Target *string     `json:"target,omitempty"`
	Atime  string      `json:"atime"`
	Mtime  string      `json:"mtime"`
	Ctime  string      `json:"ctime"`
	Crtime string      `json:"crtime,omitempty"`
	Flags  uint32      `json:"flags"`
	Xattrs []attrFacts `json:"xattrs,omitempty"` // stat only

	mode fs.FileMode
	when time.Time
}

// attrFacts is an extended attribute in JSON; Value is encoded as by getfattr.
type attrFacts struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// describe returns what there is to say of name.
func (s *session) describe(name string, info fs.FileInfo) (facts, error) {
	st := ext4.StatOf(info)
	f := facts{
		Path: name, Type: typeName(info.Mode()), Mode: fmt.Sprintf("%04o", st.Mode&0o7777), Ino: st.Ino, Nlink: st.Nlink,
		UID: st.UID, GID: st.GID, Size: st.Size, Blocks: st.Blocks, Flags: st.Flags,
		Atime: stamp(st.Atime), Mtime: stamp(st.Mtime), Ctime: stamp(st.Ctime),
		mode: info.Mode(), when: info.ModTime(),
	}
	if !st.Crtime.IsZero() {
		f.Crtime = stamp(st.Crtime)
	}
	switch {
	case info.Mode()&fs.ModeDevice != 0:
		f.Device = fmt.Sprintf("%d, %d", st.Major, st.Minor)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := s.edit.Readlink(name)
		if err != nil {
			return f, err
		}
		f.Target = &target
	}
	return f, nil
}

// stamp is a time in text.
func stamp(t format.Time) string { return t.Time().Format(time.RFC3339Nano) }

// typeName is the word for a type of file.
func typeName(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "symlink"
	case fs.ModeNamedPipe:
		return "fifo"
	case fs.ModeSocket:
		return "socket"
	case fs.ModeDevice:
		return "block device"
	case fs.ModeDevice | fs.ModeCharDevice:
		return "character device"
	}
	return "unknown"
}

// modeText is a mode as ls -l prints it.
func modeText(mode fs.FileMode) string {
	letters := map[fs.FileMode]byte{fs.ModeDir: 'd', fs.ModeSymlink: 'l', fs.ModeNamedPipe: 'p', fs.ModeSocket: 's',
		fs.ModeDevice: 'b', fs.ModeDevice | fs.ModeCharDevice: 'c', 0: '-'}
	text := []byte("?rwxrwxrwx")
	if letter, ok := letters[mode.Type()]; ok {
		text[0] = letter
	}
	for i := range 9 {
		if mode&(1<<(8-i)) == 0 {
			text[i+1] = '-'
		}
	}
	special := func(bit fs.FileMode, at int, with, without byte) {
		switch {
		case mode&bit == 0:
		case text[at] == 'x':
			text[at] = with
		default:
			text[at] = without
		}
	}
	special(fs.ModeSetuid, 3, 's', 'S')
	special(fs.ModeSetgid, 6, 's', 'S')
	special(fs.ModeSticky, 9, 't', 'T')
	return string(text)
}

// printable is a name for people: control characters are escaped.
func printable(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
		return name
	}
	quoted := fmt.Sprintf("%+q", name)
	return quoted[1 : len(quoted)-1]
}

// arrow is " -> target" of a symbolic link, else nothing.
func (f facts) arrow() string {
	if f.Target == nil {
		return ""
	}
	return " -> " + printable(*f.Target)
}
