package build

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"drydock/format"
	"drydock/internal/mkfs"
)

// Why not archive/tar: it reads the same formats, but expands sparse members,
// hides their maps and where data lies, and leaves global headers alone. Holes
// would be lost and every byte would have to pass through memory. A test holds
// this reader to archive/tar and to GNU tar.

// maxHeaderData is the largest extended header or long name, in bytes.
const maxHeaderData = 4 << 20

// tarMember is one member of an archive, with extended headers applied.
type tarMember struct {
	at                 int64 // of its first header
	name, link         string
	kind               byte // '0' for all kinds of files, '5' for all of directories
	mode               uint16
	uid, gid           uint32
	mtime              format.Time
	devMajor, devMinor uint32
	size               uint64 // of the file, with holes
	stored             int64  // bytes of data in the archive, without a map
	data               int64  // where they begin
	sparse             bool
	ranges             []mkfs.Range // of a sparse file; they lie one after another in the data
	pax                *paxRecords
}

// TarError says what is wrong with an archive and where.
type TarError struct {
	Archive string
	Member  string // "" if it is not known
	After   bool   // it is what follows the member
	Offset  int64  // in bytes from the start of the archive, after decompression
	Err     error
}

func (e *TarError) Error() string {
	if e.Member == "" {
		return fmt.Sprintf("%s: at byte %d: %v", e.Archive, e.Offset, e.Err)
	}
	after := ""
	if e.After {
		after = "after "
	}
	return fmt.Sprintf("%s: %smember %s at byte %d: %v", e.Archive, after, quotePath(e.Member), e.Offset, e.Err)
}

func (e *TarError) Unwrap() error { return e.Err }

// ErrTarDamaged is what every error about the structure of an archive is.
var ErrTarDamaged = errors.New("damaged or truncated archive")

var (
	errTarEnd   = errors.New("the archive ends here, without its end mark")
	errTarShort = errors.New("the archive ends here, in the middle of a member")
	errTarLone  = errors.New("one block of zeros, an end mark has two")
	errTarNone  = errors.New("the archive is empty")
)

// tarReader reads members one after another.
type tarReader struct {
	in     tarInput
	global *paxRecords
	last   string // the member that was read last, for messages
	failed string // the member that an error is about
	at     int64  // where the header begins that was read last
	next   int64  // where the next one does
	block  [tarBlock]byte
}

func newTarReader(in tarInput) *tarReader {
	return &tarReader{in: in, global: &paxRecords{}}
}

// member returns the next member, io.EOF after the last. Its data is read, or
// not, from in before the next call.
func (r *tarReader) member() (*tarMember, error) {
	r.failed = ""
	if err := r.in.skip(r.next - r.in.pos()); err != nil {
		r.failed = r.last
		return nil, short(err)
	}
	x := &tarExtras{at: r.next}
	for {
		h, err := r.header()
		if err != nil {
			return nil, err
		}
		m, err := r.take(x, h)
		if err != nil || m != nil {
			return m, err
		}
		if err := r.in.skip(r.next - r.in.pos()); err != nil {
			return nil, short(err)
		}
	}
}

// tarExtras is what the headers before a member's own say of it.
type tarExtras struct {
	at         int64 // where they begin
	pax        *paxRecords
	name, link string
}

// take reads what follows a header. It returns a member once there is one.
func (r *tarReader) take(x *tarExtras, h tarHeader) (m *tarMember, err error) {
	switch h[thType] {
	case tarPax, tarPaxSun:
		if x.pax == nil {
			x.pax = r.global.clone()
		}
		return nil, r.records(h, x.pax)
	case tarPaxGlobal:
		r.global = r.global.clone()
		err = r.records(h, r.global)
		r.global.sparse = paxSparse{}
		return nil, err
	case tarLongName:
		x.name, err = r.longText(h)
		return nil, err
	case tarLongLink:
		x.link, err = r.longText(h)
		return nil, err
	}
	m, err = r.fill(x, h)
	if err != nil || m.kind != tarGNUVolume {
		return m, err
	}
	*x = tarExtras{at: r.next}
	return nil, nil
}

// header reads a header block, io.EOF at the end mark. It sets where the next
// one begins, were there no data.
func (r *tarReader) header() (tarHeader, error) {
	h := tarHeader(r.block[:])
	r.at = r.in.pos()
	err := r.in.read(h)
	switch {
	case err == io.EOF && r.at == 0:
		return nil, errTarNone
	case err == io.EOF:
		return nil, errTarEnd
	case err != nil:
		return nil, short(err)
	}
	if isZero(h) {
		return nil, r.end(h)
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	r.next = r.in.pos()
	return h, nil
}

// end reads what follows the first block of zeros: another, or nothing at all.
func (r *tarReader) end(h tarHeader) error {
	r.next = r.in.pos()
	err := r.in.read(h)
	if err != nil && err != io.EOF {
		return short(err)
	}
	if err == nil && !isZero(h) {
		return errTarLone
	}
	return io.EOF
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// extra reads the data of a header that belongs to the member after it.
func (r *tarReader) extra(h tarHeader) ([]byte, error) {
	size, err := h.number("size", thSize, lenSize)
	if err != nil {
		return nil, err
	}
	if size < 0 || size > maxHeaderData {
		return nil, fmt.Errorf("extended header of %d bytes, at most %d are read", size, maxHeaderData)
	}
	b := make([]byte, size)
	if err := r.in.read(b); err != nil {
		return nil, short(err)
	}
	r.next = r.in.pos() + padding(size)
	return b, nil
}

// padding is what is missing to whole blocks.
func padding(size int64) int64 { return -size & (tarBlock - 1) }

func (r *tarReader) records(h tarHeader, p *paxRecords) error {
	b, err := r.extra(h)
	if err != nil {
		return err
	}
	return p.parse(b)
}

func (r *tarReader) longText(h tarHeader) (string, error) {
	b, err := r.extra(h)
	s, _, _ := strings.Cut(string(b), "\x00")
	return s, err
}

// fill makes a member of its header and all that was said before it.
func (r *tarReader) fill(x *tarExtras, h tarHeader) (*tarMember, error) {
	p := x.pax
	if p == nil {
		p = r.global
	}
	m := &tarMember{at: x.at, pax: p}
	m.name = firstText(p.sparse.name, p.path, x.name, h.name())
	m.link = firstText(nil, p.link, x.link, h.text(thLink, lenName))
	r.failed = m.name
	m.kind = kindOf(h[thType], m.name)
	if m.kind == 0 {
		return nil, fmt.Errorf("type %q is not supported", h[thType])
	}
	if err := m.numbers(h); err != nil {
		return nil, err
	}
	if err := r.place(m, h); err != nil {
		return nil, short(err)
	}
	r.last = m.name
	return m, nil
}

// firstText returns the first text that is there.
func firstText(a, b *string, c, d string) string {
	switch {
	case a != nil:
		return *a
	case b != nil:
		return *b
	case c != "":
		return c
	}
	return d
}

// kindOf reduces a type to one of its kind, 0 for an unknown one. Archives
// from before POSIX mark a directory by a slash at the end.
func kindOf(flag byte, name string) byte {
	switch flag {
	case tarFile, tarFileV7:
		if strings.HasSuffix(name, "/") {
			return tarDir
		}
		return tarFile
	case tarContiguous, tarGNUSparse:
		return tarFile
	case tarGNUDumpDir:
		return tarDir
	case tarHardLink, tarSymlink, tarChar, tarBlockDev, tarDir, tarFifo, tarGNUVolume:
		return flag
	}
	return 0
}

// numbers reads mode, owner, time and device.
func (m *tarMember) numbers(h tarHeader) error {
	mode, err := h.number("mode", thMode, lenID)
	if err != nil {
		return err
	}
	m.mode = uint16(mode & 0o7777)
	if m.uid, err = owner(m.pax.uid, h, "uid", thUID); err != nil {
		return err
	}
	if m.gid, err = owner(m.pax.gid, h, "gid", thGID); err != nil {
		return err
	}
	if m.pax.mtime != nil {
		m.mtime = *m.pax.mtime
	} else if m.mtime.Sec, err = h.number("mtime", thMtime, lenMtime); err != nil {
		return err
	}
	if m.kind != tarChar && m.kind != tarBlockDev {
		return nil
	}
	return m.device(h)
}

// owner reads the number of a user or a group. Old archives hold small
// negative ones, which are large numbers of 32 bits.
func owner(pax *int64, h tarHeader, name string, off int) (uint32, error) {
	v := int64(0)
	if pax != nil {
		v = *pax
	} else {
		var err error
		if v, err = h.number(name, off, lenID); err != nil {
			return 0, err
		}
	}
	if v < 0 && v >= -1<<31 {
		v += 1 << 32
	}
	if v < 0 || v >= noID {
		return 0, fmt.Errorf("%s %d: want 0 to %d", name, v, uint32(noID-1))
	}
	return uint32(v), nil
}

// Largest numbers of a device that Linux and ext4 have.
const (
	maxDevMajor = 1<<12 - 1
	maxDevMinor = 1<<20 - 1
)

func (m *tarMember) device(h tarHeader) (err error) {
	if m.devMajor, err = deviceNumber(m.pax.devMajor, h, "devmajor", thDevMajor, maxDevMajor); err != nil {
		return err
	}
	m.devMinor, err = deviceNumber(m.pax.devMinor, h, "devminor", thDevMinor, maxDevMinor)
	return err
}

func deviceNumber(pax *int64, h tarHeader, name string, off int, limit int64) (uint32, error) {
	v := int64(0)
	var err error
	switch {
	case pax != nil:
		v = *pax
	case h.hasDevice():
		if v, err = h.number(name, off, lenDev); err != nil {
			return 0, err
		}
	}
	if v < 0 || v > limit {
		return 0, fmt.Errorf("%s %d: want 0 to %d", name, v, limit)
	}
	return uint32(v), nil
}

// place finds out how much data a member has and where.
func (r *tarReader) place(m *tarMember, h tarHeader) (err error) {
	stored := int64(0)
	if hasData(h[thType]) {
		if stored, err = m.storedSize(h); err != nil {
			return err
		}
	}
	if err := r.sparse(m, h, &stored); err != nil {
		return err
	}
	m.data = r.in.pos()
	m.stored = stored
	if !m.sparse {
		m.size = uint64(stored)
	}
	if m.kind != tarFile {
		m.size = 0
	}
	r.next = m.data + stored + padding(stored)
	return nil
}

// hasData reports whether a member of this type is followed by data. Some old
// programs give links and directories a size all the same.
func hasData(flag byte) bool {
	switch flag {
	case tarHardLink, tarSymlink, tarChar, tarBlockDev, tarDir, tarFifo:
		return false
	}
	return true
}

// maxStored is the largest size that cannot overflow an offset.
const maxStored = 1 << 60

func (m *tarMember) storedSize(h tarHeader) (int64, error) {
	size := int64(0)
	if m.pax.size != nil {
		size = *m.pax.size
	} else {
		var err error
		if size, err = h.number("size", thSize, lenSize); err != nil {
			return 0, err
		}
	}
	if size < 0 || size > maxStored {
		return 0, fmt.Errorf("size %d: want 0 to %d", size, int64(maxStored))
	}
	return size, nil
}

// sparse reads the map of a sparse member, and takes what the map occupies off
// stored.
func (r *tarReader) sparse(m *tarMember, h tarHeader, stored *int64) (err error) {
	var sm sparseMap
	p := &m.pax.sparse
	switch {
	case h[thType] == tarGNUSparse:
		sm, err = r.gnuSparse(h)
	case m.kind == tarFile && (p.inHeader || p.major == 1 && p.minor == 0):
		var used int64
		sm, used, err = r.paxSparseMap(p, *stored)
		*stored -= used
	case m.kind == tarFile && (p.major != 0 || p.minor != 0):
		return fmt.Errorf("%w: version %d.%d is not known", errSparse, p.major, p.minor)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if sm.packed != uint64(*stored) {
		return fmt.Errorf("%w: it tells of %d bytes of data, the member has %d", errSparse, sm.packed, *stored)
	}
	m.sparse, m.size, m.ranges = true, sm.size, sm.ranges
	return nil
}

// short turns an early end into an error that says so.
func short(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errTarShort
	}
	return err
}

// where says where an error came up: at the header that was read last or, if
// the archive is too short, at its end.
func (r *tarReader) where(archive string, err error) error {
	e := &TarError{Archive: archive, Member: r.failed, Offset: r.at, Err: err}
	if e.Member == "" && r.last != "" {
		e.Member, e.After = r.last, true
	}
	for _, end := range []error{errTarShort, errTarEnd, io.ErrUnexpectedEOF} {
		if errors.Is(err, end) {
			e.Offset = r.in.pos()
		}
	}
	return e
}
