package ext4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// op is one operation, independent of what came before it. Fields that an
// operation does not use are zero.
type op struct {
	Kind     string
	A, B     string    `json:",omitempty"` // paths, or a target
	Slot     int       `json:",omitempty"` // of the open files
	Off, N   int64     `json:",omitempty"`
	Flag     int       `json:",omitempty"` // of open or setxattr
	Mode     uint32    `json:",omitempty"`
	UID, GID int       `json:",omitempty"`
	Atime    time.Time `json:",omitzero"`
	Mtime    time.Time `json:",omitzero"`
	Attr     string    `json:",omitempty"`
	Seed     uint64    `json:",omitempty"` // of data
	Keep     bool      `json:",omitempty"`
	NoFollow bool      `json:",omitempty"`
}

func (o op) String() string {
	s := fmt.Sprintf("%s %.300q", o.Kind, o.A)
	if o.B != "" {
		s += fmt.Sprintf(" %.300q", o.B)
	}
	return s + fmt.Sprintf(" slot %d [%d,+%d) flag %#x mode %o %d:%d %s keep %v nofollow %v", o.Slot, o.Off, o.N, o.Flag, o.Mode, o.UID, o.GID, o.Attr, o.Keep, o.NoFollow)
}

// opKind makes and does operations of a kind. run returns the result, in which
// the sides must not differ.
type opKind struct {
	weight int
	make   func(g *opMaker, o *op)
	run    func(p *player, o op) string
}

const modelSlots = 6

// player does operations on a system.
type player struct {
	sys   system
	slots [modelSlots]handle
	flags [modelSlots]int
}

func (p *player) do(o op) string { return opKinds[o.Kind].run(p, o) }

func (p *player) closeAll() {
	for i := range p.slots {
		p.closeSlot(i)
	}
}

func (p *player) closeSlot(i int) string {
	if p.slots[i] == nil {
		return "none"
	}
	err := p.slots[i].close()
	p.slots[i] = nil
	return errorName(err)
}

// opMaker has the random choices. It remembers the paths that were used last:
// they are likely to exist.
type opMaker struct {
	*rand.Rand
	used []string
}

// usedPaths is how many paths it remembers.
const usedPaths = 50

func randomOps(rng *rand.Rand, count int) []op {
	g := &opMaker{Rand: rng}
	var bag []string
	for _, name := range opOrder {
		for range opKinds[name].weight {
			bag = append(bag, name)
		}
	}
	ops := []op{{Kind: "mkdir", A: "/big", Mode: 0o755}, {Kind: "mkdir", A: "/a", Mode: 0o755}, {Kind: "mkdir", A: "/b", Mode: 0o755}}
	for len(ops) < count {
		o := op{Kind: bag[g.IntN(len(bag))]}
		opKinds[o.Kind].make(g, &o)
		ops = append(ops, o)
	}
	return ops
}

// Few names, so that operations meet; among them the longest and one too long.
var modelNames = []string{"a", "b", "c", "d", strings.Repeat("x", 255), "\u00fc\u20ac", "a space\n"}

func (g *opMaker) name() string {
	if g.IntN(200) == 0 {
		return strings.Repeat("y", 256)
	}
	if g.IntN(8) > 0 {
		return modelNames[g.IntN(4)]
	}
	return modelNames[g.IntN(len(modelNames))]
}

// bigName is a path in a directory that grows large.
func bigName(i int) string { return fmt.Sprintf("/big/n%03d%s", i, strings.Repeat("-", i*7%200)) }

// path is a path that was used before, or one below that, or a new one.
func (g *opMaker) path() string {
	if len(g.used) > 0 && g.IntN(3) > 0 {
		return g.used[g.IntN(len(g.used))]
	}
	s := g.newPath()
	if len(g.used) > 0 && g.IntN(6) == 0 {
		s = g.used[g.IntN(len(g.used))] + "/" + g.name()
	}
	if g.used = append(g.used, s); len(g.used) > usedPaths {
		g.used = slices.Delete(g.used, 0, 1)
	}
	return s
}

// newPath is any path; one of six is in the large directory.
func (g *opMaker) newPath() string {
	switch {
	case g.IntN(6) == 0:
		return bigName(g.IntN(600))
	case g.IntN(300) == 0:
		return "/big"
	}
	s := ""
	for range 1 + g.IntN(5)/3 {
		s += "/" + g.name()
		if g.IntN(100) == 0 {
			s += "/../" + g.name()
		}
	}
	return s
}

func (g *opMaker) off() int64 {
	switch g.IntN(12) {
	case 0:
		return g.Int64N(4 << 20)
	case 1, 2, 3:
		return g.Int64N(64) * 4096
	case 4:
		return g.Int64N(300) * 1024
	case 5:
		return 0
	default:
		return g.Int64N(100_000)
	}
}

func (g *opMaker) length() int64 {
	switch g.IntN(8) {
	case 0:
		return 1 + g.Int64N(200_000)
	case 1, 2:
		return (1 + g.Int64N(16)) * 4096
	default:
		return 1 + g.Int64N(9000)
	}
}

func (g *opMaker) perm() uint32 { return g.Uint32N(0o10000) }

// openFlags are the ways to open a file.
var openFlags = []int{
	os.O_RDONLY, os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE | os.O_EXCL,
	os.O_WRONLY | os.O_CREATE | os.O_TRUNC, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND | os.O_CREATE, os.O_RDWR | os.O_APPEND,
}

// times far from any clock that the sides use.
func (g *opMaker) time() time.Time {
	years := []int{1902, 1950, 1969, 1970, 1999, 2037}
	t := time.Date(years[g.IntN(len(years))], 1+time.Month(g.IntN(12)), 1, 0, 0, g.IntN(80_000), g.IntN(1_000_000_000), time.UTC)
	switch g.IntN(4) {
	case 0:
		return t.Truncate(time.Second)
	case 1:
		return t.AddDate(200+g.IntN(50), 0, 0)
	default:
		return t
	}
}

var modelAttrs = []string{"user.a", "user.b", "user.long." + strings.Repeat("n", 100), "trusted.t", "security.s"}

func onPath(g *opMaker, o *op) { o.A = g.path() }

// onPaths is mostly from what exists to what does not.
func onPaths(g *opMaker, o *op) {
	o.A, o.B = g.path(), g.path()
	if g.IntN(2) == 0 {
		o.B = g.newPath()
		g.used = append(g.used, o.B)
	}
}
func onSlot(g *opMaker, o *op) { o.Slot = g.IntN(modelSlots) }

func onRange(g *opMaker, o *op) {
	onSlot(g, o)
	o.Off, o.N, o.Seed = g.off(), g.length(), g.Uint64()
}

func onWideRange(g *opMaker, o *op) {
	onRange(g, o)
	if g.IntN(4) == 0 {
		o.N = 1 + g.Int64N(1<<20)
	}
	if g.IntN(60) == 0 {
		o.N = 0
	}
	o.Keep = g.IntN(2) == 0
}

// opOrder fixes the order in which kinds are chosen from.
var opOrder = []string{
	"create", "write", "read", "truncate", "mkdir", "remove", "removeall", "rename", "link", "symlink", "readlink", "chmod", "chown", "chtimes",
	"mknod", "setxattr", "removexattr", "xattrs", "readdir", "stat", "open", "hwrite", "happend", "hread", "htruncate", "hpunch", "hzero",
	"hallocate", "hsync", "hstat", "hchmod", "hclose", "sync", "reopen", "turn", "mkdirall", "writefile", "setacl", "fill", "thin",
}

var opKinds map[string]opKind

func init() {
	opKinds = map[string]opKind{
		"create":      {30, func(g *opMaker, o *op) { onPath(g, o); o.Mode = g.perm(); o.N = g.length(); o.Seed = g.Uint64() }, runCreate},
		"write":       {18, func(g *opMaker, o *op) { onRange(g, o); o.A = g.path() }, runWrite},
		"read":        {8, onPath, runRead},
		"truncate":    {8, func(g *opMaker, o *op) { onPath(g, o); o.N = g.off() - 100 }, runErr(func(p *player, o op) error { return p.sys.truncate(o.A, o.N) })},
		"mkdir":       {18, func(g *opMaker, o *op) { onPath(g, o); o.Mode = g.perm() & 0o1777 }, runErr(func(p *player, o op) error { return p.sys.mkdir(o.A, o.Mode) })},
		"remove":      {12, onPath, runErr(func(p *player, o op) error { return p.sys.remove(o.A) })},
		"removeall":   {1, onPath, runRemoveAll},
		"rename":      {24, onPaths, runErr(func(p *player, o op) error { return p.sys.rename(o.A, o.B) })},
		"link":        {10, onPaths, runErr(func(p *player, o op) error { return p.sys.link(o.A, o.B) })},
		"symlink":     {10, makeSymlink, runErr(func(p *player, o op) error { return p.sys.symlink(o.B, o.A) })},
		"readlink":    {3, onPath, runReadlink},
		"chmod":       {6, func(g *opMaker, o *op) { onPath(g, o); o.Mode = g.perm() }, runErr(func(p *player, o op) error { return p.sys.chmod(o.A, o.Mode) })},
		"chown":       {8, makeChown, runErr(func(p *player, o op) error { return p.sys.chown(o.A, o.UID, o.GID, !o.NoFollow) })},
		"chtimes":     {8, makeChtimes, runErr(func(p *player, o op) error { return p.sys.chtimes(o.A, o.Atime, o.Mtime, !o.NoFollow) })},
		"mknod":       {5, makeMknod, runErr(func(p *player, o op) error { return p.sys.mknod(o.A, o.Mode, uint32(o.UID), uint32(o.GID)) })},
		"setxattr":    {14, makeSetXattr, runSetXattr},
		"removexattr": {5, makeAttr, runErr(func(p *player, o op) error { return p.sys.removeXattr(o.A, o.Attr, !o.NoFollow) })},
		"xattrs":      {4, makeAttr, func(p *player, o op) string { return xattrLine(p.sys, o.A) }},
		"readdir":     {5, onPath, runReadDir},
		"stat":        {8, makeAttr, runStat},
		"open":        {14, makeOpen, runOpen},
		"hwrite":      {24, onRange, onHandle(handleWrite)},
		"happend":     {6, onRange, onHandle(handleAppend)},
		"hread":       {10, onRange, onHandle(handleRead)},
		"htruncate":   {8, onRange, onHandle(func(h handle, o op) string { return errorName(h.truncate(o.Off)) })},
		"hpunch":      {7, onWideRange, onHandle(func(h handle, o op) string { return errorName(h.punch(o.Off, o.N)) })},
		"hzero":       {7, onWideRange, onHandle(func(h handle, o op) string { return errorName(h.zero(o.Off, o.N, o.Keep)) })},
		"hallocate":   {7, onWideRange, onHandle(func(h handle, o op) string { return errorName(h.allocate(o.Off, o.N, o.Keep)) })},
		"hsync":       {3, onSlot, onHandle(func(h handle, _ op) string { return errorName(h.sync()) })},
		"hstat":       {6, onSlot, onHandle(handleStat)},
		"hchmod":      {2, func(g *opMaker, o *op) { onSlot(g, o); o.Mode = g.perm() }, onHandle(func(h handle, o op) string { return errorName(h.chmod(o.Mode)) })},
		"hclose":      {5, onSlot, func(p *player, o op) string { return p.closeSlot(o.Slot) }},
		"sync":        {1, func(*opMaker, *op) {}, func(p *player, _ op) string { return errorName(p.sys.sync()) }},
		"reopen":      {1, func(*opMaker, *op) {}, nil}, // see modelRun.step
		"turn":        {1, func(g *opMaker, o *op) { o.Keep = g.IntN(2) == 0 }, nil},
		"mkdirall":    {3, func(g *opMaker, o *op) { onPath(g, o); o.Mode = g.perm() & 0o777 }, runErr(func(p *player, o op) error { return p.sys.mkdirAll(o.A, o.Mode) })},
		"writefile": {8, func(g *opMaker, o *op) {
			onPath(g, o)
			o.Mode = g.perm() & 0o777
			o.N = g.length() - 1
			o.Seed = g.Uint64()
		}, runWriteFile},
		"setacl": {6, makeACL, runSetACL},
		"fill":   {3, makeMany, runMany(func(p *player, name string) error { return p.sys.mknod(name, unix.S_IFREG|0o600, 0, 0) })},
		"thin":   {3, makeMany, runMany(func(p *player, name string) error { return p.sys.remove(name) })},
	}
}

func runErr(call func(p *player, o op) error) func(p *player, o op) string {
	return func(p *player, o op) string { return errorName(call(p, o)) }
}

// onHandle does nothing where the slot has no open file.
func onHandle(call func(h handle, o op) string) func(p *player, o op) string {
	return func(p *player, o op) string {
		if p.slots[o.Slot] == nil {
			return "none"
		}
		if o.Kind == "hwrite" && p.flags[o.Slot]&os.O_APPEND != 0 {
			return "appends only"
		}
		return call(p.slots[o.Slot], o)
	}
}

// openable says that opening does not wait for others, as that of a fifo does.
func (p *player) openable(name string) bool {
	a, err := p.sys.stat(name, true)
	t := a.mode & unix.S_IFMT
	return err != nil || t == unix.S_IFREG || t == unix.S_IFDIR
}

// runRemoveAll leaves alone what lies below a fifo: os.RemoveAll opens that and waits.
func runRemoveAll(p *player, o op) string {
	if !p.openable(path.Dir(o.A)) {
		return "special"
	}
	return errorName(p.sys.removeAll(o.A))
}

func runCreate(p *player, o op) string {
	if !p.openable(o.A) {
		return "special"
	}
	h, err := p.sys.open(o.A, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, o.Mode)
	if err != nil {
		return errorName(err)
	}
	n, err := h.writeAt(noise(int(o.N), o.Seed), 0)
	return fmt.Sprint(n, errorName(err), errorName(h.close()))
}

func runWrite(p *player, o op) string {
	if !p.openable(o.A) {
		return "special"
	}
	h, err := p.sys.open(o.A, os.O_WRONLY, 0)
	if err != nil {
		return errorName(err)
	}
	n, err := h.writeAt(noise(int(o.N), o.Seed), o.Off)
	return fmt.Sprint(n, errorName(err), errorName(h.close()))
}

func runRead(p *player, o op) string {
	if !p.openable(o.A) {
		return "special"
	}
	a, err := p.sys.stat(o.A, true)
	if err != nil {
		return errorName(err)
	}
	return content(p.sys, o.A, max(a.size, 10))
}

// makeSymlink makes targets of all lengths; some do not exist, some go in circles.
func makeSymlink(g *opMaker, o *op) {
	o.A = g.path()
	switch g.IntN(8) {
	case 0:
		o.B = strings.Repeat("t/", 1+g.IntN(1200))
	case 1:
		o.B = strings.Repeat("l", 1+g.IntN(80))
	case 2:
		o.B = g.path()
	case 3:
		o.B = "../" + g.name()
	default:
		o.B = strings.TrimPrefix(g.path(), "/")
	}
}

func runReadlink(p *player, o op) string {
	target, err := p.sys.readlink(o.A)
	return target + errorName(err)
}

func makeChown(g *opMaker, o *op) {
	o.A, o.UID, o.GID, o.NoFollow = g.path(), g.IntN(100_000)-1, g.IntN(3)-1, g.IntN(3) == 0
	if g.IntN(3) == 0 {
		o.UID = -1
	}
}

func makeChtimes(g *opMaker, o *op) {
	o.A, o.Atime, o.Mtime, o.NoFollow = g.path(), g.time(), g.time(), g.IntN(3) == 0
}

func makeMknod(g *opMaker, o *op) {
	types := []uint32{unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK, unix.S_IFREG}
	o.A, o.Mode = g.path(), types[g.IntN(len(types))]|g.perm()
	if t := o.Mode & unix.S_IFMT; t == unix.S_IFCHR || t == unix.S_IFBLK {
		o.UID, o.GID = 1+g.IntN(4000), g.IntN(1<<(8+g.IntN(12)))
	}
}

func makeAttr(g *opMaker, o *op) {
	o.A, o.Attr, o.NoFollow = g.path(), modelAttrs[g.IntN(len(modelAttrs))], g.IntN(3) == 0
}

func makeSetXattr(g *opMaker, o *op) {
	makeAttr(g, o)
	o.N, o.Seed = g.Int64N(60), g.Uint64N(3)
	switch g.IntN(10) {
	case 0:
		o.N = g.Int64N(250)
	case 1:
		o.N = 5000 // more than fits
	case 2:
		o.N = 0
	}
	if g.IntN(5) == 0 {
		o.Flag = 1 + g.IntN(2) // create, replace
	}
}

func runSetXattr(p *player, o op) string {
	return errorName(p.sys.setXattr(o.A, o.Attr, noise(int(o.N), o.Seed), o.Flag, !o.NoFollow))
}

func runWriteFile(p *player, o op) string {
	if !p.openable(o.A) {
		return "special"
	}
	return errorName(p.sys.writeFile(o.A, noise(int(o.N), o.Seed), o.Mode))
}

// makeMany makes operations on many names of the large directory.
func makeMany(g *opMaker, o *op) { o.Off, o.N = g.Int64N(600), 1+g.Int64N(150) }

func runMany(call func(p *player, name string) error) func(p *player, o op) string {
	return func(p *player, o op) string {
		results := map[string]int{}
		for i := range o.N {
			results[errorName(call(p, bigName(int(o.Off+i))))]++
		}
		return fmt.Sprint(results)
	}
}

// makeACL sets an access or default ACL, or takes it away.
func makeACL(g *opMaker, o *op) {
	o.A, o.Seed, o.NoFollow = g.path(), g.Uint64(), g.IntN(8) == 0
	o.Attr = []string{"system.posix_acl_access", "system.posix_acl_default"}[g.IntN(2)]
	o.Keep = g.IntN(5) > 0 // else it is removed
}

func runSetACL(p *player, o op) string {
	if !o.Keep {
		return errorName(p.sys.removeXattr(o.A, o.Attr, !o.NoFollow))
	}
	return errorName(p.sys.setXattr(o.A, o.Attr, aclValue(o.Seed), 0, !o.NoFollow))
}

// aclValue is an ACL in the form of setxattr, now and then one that is not valid.
func aclValue(seed uint64) []byte {
	const user, mask, none = 2, 0x10, 0xFFFFFFFF
	rng := rand.New(rand.NewPCG(seed, 6))
	b := binary.LittleEndian.AppendUint32(nil, 2)
	add := func(tag uint16, id uint32) {
		b = binary.LittleEndian.AppendUint16(b, tag)
		b = binary.LittleEndian.AppendUint16(b, uint16(rng.IntN(8)))
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	named := rng.IntN(3)
	add(1, none)
	for i := range named {
		add(user, uint32(1000+i))
	}
	add(4, none)
	if named > 0 && rng.IntN(20) > 0 || rng.IntN(10) == 0 {
		add(mask, none)
	}
	add(0x20, none)
	if rng.IntN(20) == 0 {
		b = b[:len(b)-1]
	}
	return b
}

func runReadDir(p *player, o op) string {
	if !p.openable(o.A) {
		return "special"
	}
	list, err := p.sys.readDir(o.A)
	return strings.Join(list, "|") + errorName(err)
}

func runStat(p *player, o op) string {
	a, err := p.sys.stat(o.A, !o.NoFollow)
	if err != nil {
		return errorName(err)
	}
	return a.String()
}

func makeOpen(g *opMaker, o *op) {
	o.A, o.Slot, o.Flag, o.Mode = g.path(), g.IntN(modelSlots), openFlags[g.IntN(len(openFlags))], g.perm()
}

func runOpen(p *player, o op) string {
	p.closeSlot(o.Slot)
	if !p.openable(o.A) {
		return "special"
	}
	h, err := p.sys.open(o.A, o.Flag, o.Mode)
	if err == nil {
		p.slots[o.Slot], p.flags[o.Slot] = h, o.Flag
	}
	return errorName(err)
}

func handleWrite(h handle, o op) string {
	n, err := h.writeAt(noise(int(o.N), o.Seed), o.Off)
	return fmt.Sprint(n, errorName(err))
}

func handleAppend(h handle, o op) string {
	n, err := h.write(noise(int(o.N), o.Seed))
	return fmt.Sprint(n, errorName(err))
}

func handleRead(h handle, o op) string {
	p := make([]byte, o.N)
	n, err := h.readAt(p, o.Off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return fmt.Sprintf("%d %08x %s", n, crc32.ChecksumIEEE(p[:n]), errorName(err))
}

func handleStat(h handle, _ op) string {
	a, err := h.stat()
	return a.String() + errorName(err)
}
