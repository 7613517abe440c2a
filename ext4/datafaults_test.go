package ext4

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
)

// orderRule is a rule of ordering: run does something on a recorded device, and
// check looks at what a crash leaves.
type orderRule struct {
	name    string
	breakIt func(*dataFaults)
	run     func(t testing.TB, fsys *FS)
	check   func(fsys *FS) error
}

var orderRules = []orderRule{
	{
		"data is on the device before its blocks are part of the file",
		func(f *dataFaults) { f.recordFirst = true },
		func(t testing.TB, fsys *FS) {
			for v := range 4 {
				require.NoError(t, fsys.WriteFile(fmt.Sprintf("f%d", v), bytes.Repeat([]byte{1}, 20_000), 0o644))
				require.NoError(t, fsys.syncData())
				require.NoError(t, fsys.j.SyncAll())
			}
		},
		func(fsys *FS) error {
			for v := range 4 {
				b, _ := fsys.ReadFile(fmt.Sprintf("f%d", v))
				if i := bytes.IndexByte(b, staleByte); i >= 0 {
					return fmt.Errorf("stale byte at %d", i)
				}
			}
			return nil
		},
	},
	{
		"what lies behind the old end is zeros before the size moves past it",
		func(f *dataFaults) { f.keepTail = true },
		func(t testing.TB, fsys *FS) {
			f := openFile(t, fsys, "old", os.O_RDWR)
			_, err := f.WriteAt([]byte{1}, 100_000)
			require.NoError(t, err)
			require.NoError(t, f.Sync())
		},
		func(fsys *FS) error {
			b, err := fsys.ReadFile("old")
			if i := bytes.IndexByte(b[min(5000, len(b)):], staleByte); i >= 0 {
				return fmt.Errorf("stale byte at %d", i)
			}
			return err
		},
	},
	{
		"the end of a file that was cut stays as it was until the cut is durable",
		func(f *dataFaults) { f.cutAtOnce = true },
		func(t testing.TB, fsys *FS) {
			f := openFile(t, fsys, "old", os.O_RDWR)
			require.NoError(t, f.Truncate(4500))
			require.NoError(t, fsys.syncData())
			require.NoError(t, f.Sync())
		},
		func(fsys *FS) error {
			b, err := fsys.ReadFile("old")
			if err == nil && !bytes.Equal(b, bytes.Repeat([]byte{2}, len(b))) {
				err = errors.New("the longer file has zeros at its end")
			}
			return err
		},
	},
	{
		"a file that was cut to nothing, written and closed is not empty for long",
		func(f *dataFaults) { f.stayEmpty = true },
		func(t testing.TB, fsys *FS) {
			for range 5 {
				require.NoError(t, fsys.WriteFile("old", bytes.Repeat([]byte{2}, 6000), 0o644))
			}
			require.NoError(t, fsys.j.SyncAll())
		},
		nil,
	},
}

// brokenFS is what the rules work on: a file "old" of 5000 bytes, behind whose end
// the device holds something else.
func brokenFS(t testing.TB) *device.Mem {
	dev := staleFS(t, 8<<20, "-b", "4096")
	fsys := openWith(t, dev, Options{})
	require.NoError(t, fsys.WriteFile("old", bytes.Repeat([]byte{2}, 5000), 0o644))
	require.NoError(t, fsys.Sync())
	x := extentsOf(t, fsys, "old")[0]
	require.NoError(t, fsys.Close())
	_, err := dev.WriteAt(bytes.Repeat([]byte{staleByte}, 8192-5000), int64(x.Start)*4096+5000)
	require.NoError(t, err)
	return dev
}

// Each rule holds in all crashes, and does not when it is broken on purpose.
func TestOrderRules(t *testing.T) {
	base := brokenFS(t)
	for _, rule := range orderRules {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", rule.name, broken), func(t *testing.T) {
				err := rule.crash(t, base, broken)
				if broken {
					require.Error(t, err, "nobody notices")
				} else {
					require.NoError(t, err)
				}
			})
		}
	}
}

// crash runs a rule and returns what is wrong after a crash, if anything is.
func (o orderRule) crash(t *testing.T, base *device.Mem, broken bool) (found error) {
	rec := device.NewRecorder(base.Clone())
	fsys := openWith(t, rec, Options{})
	if broken {
		o.breakIt(&fsys.files.faults)
	}
	o.run(t, fsys)
	events := rec.Trace().Events
	r := newRand(t)
	if o.check == nil {
		dev := crashState(r, base, events)
		again := openWith(t, dev, Options{})
		b, err := again.ReadFile("old")
		require.NoError(t, err)
		require.NoError(t, again.Close())
		if len(b) == 0 {
			found = errors.New("the file is empty")
		}
	}
	for i := 0; i < 300 && o.check != nil && found == nil; i++ {
		again := openWith(t, crashState(r, base, events[:r.IntN(len(events)+1)]), Options{})
		found = o.check(again)
		require.NoError(t, again.Close())
	}
	require.NoError(t, fsys.Close())
	return found
}
