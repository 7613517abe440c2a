package device

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// A trace file is a header and records, all numbers little-endian:
//
//	header   "drydock trace 1\n", size of the device (8 bytes)
//	begin    0x00 kind (1), flags (1: bit 0 FUA), 2 bytes 0, length of the payload (4),
//	         0x08 submit (8), 0x10 off (8), 0x18 len (8), payload, sum (4)
//	end      0x00 0xff, flags (1: bit 0 failed), 2 bytes 0, 4 bytes 0,
//	         0x08 complete (8), 0x10 submit of the event that ended (8), 0x18 8 bytes 0, sum (4)
//
// The payload is the data of a write or the text of a mark. The sum is the
// CRC-32C of all bytes of the record before it. Records lie in the order in
// which things happened, so a file that was cut off is a trace up to there.
const (
	traceMagic     = "drydock trace 1\n"
	traceHeaderLen = len(traceMagic) + 8
	traceRecordLen = 32
	traceEnd       = 0xff
	traceFlag      = 1
	maxTracePiece  = 1 << 30
)

var traceTable = crc32.MakeTable(crc32.Castagnoli)

// ErrTrace is what every error about the bytes of a trace file is.
var ErrTrace = errors.New("not a whole trace")

// traceWriter writes a trace file as the events happen. After an error it
// writes nothing more.
type traceWriter struct {
	w   *bufio.Writer
	err error
}

// newTraceWriter begins a trace file for a device of size bytes.
func newTraceWriter(w io.Writer, size int64) *traceWriter {
	t := &traceWriter{w: bufio.NewWriterSize(w, 1<<16)}
	t.put([]byte(traceMagic))
	t.put(binary.LittleEndian.AppendUint64(nil, uint64(size)))
	return t
}

func (t *traceWriter) put(b []byte) {
	if t.err == nil {
		_, t.err = t.w.Write(b)
	}
}

// begin writes the record of an event that was submitted.
func (t *traceWriter) begin(e Event) {
	payload := e.Data
	if e.Kind == EventMark {
		payload = []byte(e.Text)
	}
	t.record(byte(e.Kind), e.FUA, uint64(e.Submit), uint64(e.Off), uint64(e.Len), payload)
}

// end writes the record of an event that is over.
func (t *traceWriter) end(submit, complete int, failed bool) {
	t.record(traceEnd, failed, uint64(complete), uint64(submit), 0, nil)
}

func (t *traceWriter) record(kind byte, flag bool, a, b, c uint64, payload []byte) {
	var head [traceRecordLen]byte
	head[0] = kind
	if flag {
		head[1] = traceFlag
	}
	binary.LittleEndian.PutUint32(head[4:], uint32(len(payload)))
	for i, v := range []uint64{a, b, c} {
		binary.LittleEndian.PutUint64(head[8+8*i:], v)
	}
	sum := crc32.Update(crc32.Update(0, traceTable, head[:]), traceTable, payload)
	t.put(head[:])
	t.put(payload)
	t.put(binary.LittleEndian.AppendUint32(nil, sum))
}

// flush hands everything written so far to the underlying writer.
func (t *traceWriter) flush() error {
	if t.err == nil {
		t.err = t.w.Flush()
	}
	return t.err
}

// WriteTrace writes a trace as a trace file.
func WriteTrace(w io.Writer, t Trace) error {
	type moment struct{ clock, event int }
	var moments []moment
	for i, e := range t.Events {
		moments = append(moments, moment{e.Submit, i})
		if e.Complete != 0 {
			moments = append(moments, moment{e.Complete, i})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return cmp.Compare(a.clock, b.clock) })
	out := newTraceWriter(w, t.Size)
	for _, m := range moments {
		if e := t.Events[m.event]; m.clock == e.Submit {
			out.begin(e)
		} else {
			out.end(e.Submit, e.Complete, e.Failed)
		}
	}
	return out.flush()
}

// ReadTrace reads a trace file. Where the file is cut off or damaged the error
// is ErrTrace, and the trace is what came before.
func ReadTrace(r io.Reader) (Trace, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	var head [traceHeaderLen]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return Trace{}, fmt.Errorf("%w: header: %w", ErrTrace, err)
	}
	if string(head[:len(traceMagic)]) != traceMagic {
		return Trace{}, fmt.Errorf("%w: it does not begin with %q", ErrTrace, traceMagic)
	}
	t := Trace{Size: int64(binary.LittleEndian.Uint64(head[len(traceMagic):]))}
	p := traceParser{trace: &t, index: map[int]int{}}
	for {
		err := p.record(in)
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return t, fmt.Errorf("%w: record at byte %d: %w", ErrTrace, int64(traceHeaderLen)+p.read, err)
		}
	}
}

// traceParser reads the records of a trace file.
type traceParser struct {
	trace *Trace
	index map[int]int // submit -> place in Events
	read  int64       // bytes of whole records
}

// record reads one record; io.EOF says that there is none.
func (p *traceParser) record(in io.Reader) error {
	var head [traceRecordLen]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return err // io.EOF only where a record would begin
	}
	n := binary.LittleEndian.Uint32(head[4:])
	if n > maxTracePiece {
		return fmt.Errorf("payload of %d bytes, want at most %d", n, maxTracePiece)
	}
	payload, err := readPayload(in, int64(n)+4)
	if err != nil {
		return err
	}
	sum := crc32.Update(crc32.Update(0, traceTable, head[:]), traceTable, payload[:n])
	if sum != binary.LittleEndian.Uint32(payload[n:]) {
		return errors.New("wrong checksum")
	}
	p.read += traceRecordLen + int64(n) + 4
	return p.take(head[:], payload[:n:n])
}

// readPayload reads n bytes, taking no more memory than there are.
func readPayload(in io.Reader, n int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, n))
	if err == nil && int64(len(b)) < n {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// take adds what a record says to the trace.
func (p *traceParser) take(head, payload []byte) error {
	a := binary.LittleEndian.Uint64(head[8:])
	b := binary.LittleEndian.Uint64(head[16:])
	c := binary.LittleEndian.Uint64(head[24:])
	flag := head[1]&traceFlag != 0
	if head[0] == traceEnd {
		i, ok := p.index[int(b)]
		if !ok {
			return fmt.Errorf("event %d ends, but never began", b)
		}
		p.trace.Events[i].Complete, p.trace.Events[i].Failed = int(a), flag
		return nil
	}
	e := Event{Kind: EventKind(head[0]), FUA: flag, Submit: int(a), Off: int64(b), Len: int64(c)}
	switch {
	case e.Kind > EventMark:
		return fmt.Errorf("unknown kind %d of event", head[0])
	case e.Kind == EventMark:
		e.Text = string(payload)
	case e.Kind == EventWrite && int64(len(payload)) != e.Len:
		return fmt.Errorf("a write of %d bytes with %d bytes of data", e.Len, len(payload))
	case e.Kind == EventWrite:
		e.Data = payload
	}
	if err := checkRange("event", "trace", e.Off, e.Len, p.trace.Size); err != nil {
		return err
	}
	p.index[e.Submit] = len(p.trace.Events)
	p.trace.Events = append(p.trace.Events, e)
	return nil
}
