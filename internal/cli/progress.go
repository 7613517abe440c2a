package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const (
	progressDelay  = time.Second            // work that is done before this shows no bar
	progressPeriod = 100 * time.Millisecond // between two drawings
)

// Progress is a bar on stderr with bytes, files and time left. It shows up on
// a terminal only, after a second, and is wiped off at the end. Its methods may
// be called from any goroutine; those of a nil Progress do nothing.
type Progress struct {
	bytes, files           atomic.Int64
	totalBytes, totalFiles atomic.Int64
	what                   atomic.Pointer[string]
	period                 time.Duration
	stop                   chan struct{}
	stopped                sync.WaitGroup

	screen sync.Mutex // held while anything is drawn or printed
	meter  meter      // guarded by screen
}

// Progress starts a bar for the work named by what. Without a terminal, or
// when quiet, it returns nil. Close ends it.
func (e *Env) Progress(what string) *Progress {
	if e.Quiet || !IsTerminal(e.Stderr) {
		return nil
	}
	e.progress = startProgress(e.Stderr, what, progressDelay, progressPeriod)
	return e.progress
}

// IsTerminal tells whether w is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// startProgress draws on w every period, from delay on.
func startProgress(w io.Writer, what string, delay, period time.Duration) *Progress {
	p := &Progress{period: period, stop: make(chan struct{})}
	p.meter.w = &gate{w: w, opens: time.Now().Add(delay)}
	p.what.Store(&what)
	p.stopped.Go(p.draw)
	return p
}

// Stage names what is being done now.
func (p *Progress) Stage(what string) {
	if p != nil {
		p.what.Store(&what)
	}
}

// Total tells how many bytes and files the work has in all; until then, and
// for a total of 0, only what is done is shown.
func (p *Progress) Total(bytes, files int64) {
	if p != nil {
		p.totalBytes.Store(bytes)
		p.totalFiles.Store(files)
	}
}

// Done adds to what is done.
func (p *Progress) Done(bytes, files int64) {
	if p != nil {
		p.bytes.Add(bytes)
		p.files.Add(files)
	}
}

// Set tells what is done in all so far.
func (p *Progress) Set(bytes, files int64) {
	if p != nil {
		p.bytes.Store(bytes)
		p.files.Store(files)
	}
}

// Close wipes the bar off the screen. It may be called again.
func (p *Progress) Close() {
	if p == nil {
		return
	}
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	p.stopped.Wait()
}

// Print calls print with the bar wiped off; the next drawing shows it again.
func (p *Progress) Print(print func()) {
	if p == nil {
		print()
		return
	}
	p.screen.Lock()
	defer p.screen.Unlock()
	p.meter.clear()
	print()
}

// draw redraws the bar until Close.
func (p *Progress) draw() {
	tick := time.NewTicker(p.period)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			p.Print(func() { p.meter.bar = nil })
			return
		case <-tick.C:
			p.screen.Lock()
			p.meter.update(p)
			p.screen.Unlock()
		}
	}
}

// meter is the bar on the screen. Bars of known length, of unknown length and
// of nothing that can be counted are different to the library, so a new one is
// made when that changes.
type meter struct {
	w     io.Writer
	bar   *progressbar.ProgressBar
	kind  barKind
	shown int64 // bytes, as the bar has them
}

// barKind is what decides how a bar looks.
type barKind struct {
	total  int64 // bytes; 0: not known
	counts bool  // there are bytes to show
}

// update shows where p stands.
func (m *meter) update(p *Progress) {
	total, done := p.totalBytes.Load(), p.bytes.Load()
	if kind := (barKind{total, total > 0 || done > 0}); m.bar == nil || kind != m.kind {
		m.clear()
		m.bar, m.kind, m.shown = newBar(m.w, kind, p.period/2), kind, 0
	}
	if total > 0 {
		done = min(done, total-1) // the library takes the last byte for the end of the work
	}
	_ = m.bar.Add64(done - m.shown) // a screen that cannot be written is no reason to stop
	m.shown = done
	m.bar.Describe(p.describe()) // seen at the next drawing: one a period is enough
}

// clear wipes the bar off.
func (m *meter) clear() {
	if m.bar != nil {
		_ = m.bar.Clear()
	}
}

// describe returns the text in front of the bar.
func (p *Progress) describe() string {
	files, total := p.files.Load(), p.totalFiles.Load()
	switch {
	case total > 0:
		return fmt.Sprintf("%s %s/%s files", *p.what.Load(), FormatCount(files), FormatCount(total))
	case files > 0:
		return fmt.Sprintf("%s %s files", *p.what.Load(), FormatCount(files))
	default:
		return *p.what.Load()
	}
}

// newBar makes the library's bar. It is drawn at most once every throttle.
func newBar(w io.Writer, kind barKind, throttle time.Duration) *progressbar.ProgressBar {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(w),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionSetWidth(20),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(throttle),
		progressbar.OptionSetSpinnerChangeInterval(0), // no goroutine of its own, which would never end
		progressbar.OptionSpinnerType(14),
	}
	if kind.counts {
		options = append(options, progressbar.OptionShowBytes(true), progressbar.OptionShowTotalBytes(true), progressbar.OptionShowCount())
	}
	if kind.total == 0 {
		return progressbar.NewOptions64(-1, options...)
	}
	return progressbar.NewOptions64(kind.total, options...)
}

// gate drops what is written before it opens.
type gate struct {
	w     io.Writer
	opens time.Time
}

// Write writes p, or drops it.
func (g *gate) Write(p []byte) (int, error) {
	if time.Now().Before(g.opens) {
		return len(p), nil
	}
	return g.w.Write(p)
}
