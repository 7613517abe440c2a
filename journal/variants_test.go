package journal

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
	"drydock/internal/oracle"
)

// seedsOf is how many seeds a test takes: few, or ten times as many if tests may
// take minutes.
func seedsOf(few uint64) uint64 {
	if oracle.IsLong() {
		return 10 * few
	}
	return few
}

// runAllOf runs cases and fails at the first violation.
func runAllOf(t *testing.T, seeds uint64, vary func(*crashCase)) {
	t.Helper()
	total := 0
	for seed := range seeds {
		c := randomCase(seed)
		vary(&c)
		n, err := c.run()
		require.NoError(t, err)
		total += n
	}
	t.Logf("%d states", total)
}

// TestCrash looks at the states that a power cut can leave of random histories,
// over several lives of a file system.
func TestCrash(t *testing.T) {
	runAllOf(t, seedsOf(25), func(*crashCase) {})
}

// Commits and checkpoints run beside the changes.
func TestCrashInBackground(t *testing.T) {
	for _, policy := range []CopyPolicy{CopyOnDemand, CopyAlways, CopyWait} {
		runAllOf(t, seedsOf(5), func(c *crashCase) { c.background, c.policy, c.blockSize = true, policy, 1024 })
	}
}

func TestCrashWithExternalLog(t *testing.T) {
	runAllOf(t, seedsOf(5), func(c *crashCase) { c.external, c.blockSize = true, 1024 })
}

func TestCrashWithLargeBlocks(t *testing.T) {
	for _, size := range []int{8 << 10, 16 << 10, 32 << 10, 64 << 10} {
		runAllOf(t, seedsOf(1), func(c *crashCase) { c.blockSize, c.lives, c.txs, c.random = size, 2, 8, 1 })
	}
}

// K30: numbers that wrap around, and half way round.
func TestCrashWhereNumbersWrap(t *testing.T) {
	for _, tid := range []format.Tid{1<<31 - 6, 1<<32 - 6} {
		runAllOf(t, seedsOf(4), func(c *crashCase) { c.tid, c.blockSize = tid, 1024 })
	}
}

// TestEveryError fails each write and each flush in turn, as a whole or after a
// part. It is reported, memory stays right, and the disk holds what was synced.
func TestEveryError(t *testing.T) {
	kinds := []device.OpKind{device.OpWrite, device.OpFUA, device.OpFlush}
	for seed := range seedsOf(2) {
		for _, kind := range kinds {
			n := 1
			for more := true; more; n += 1 + n/8 {
				c := randomCase(seed)
				c.blockSize, c.lives, c.txs, c.random = 1024, 1, 12, 1
				c.rule = func(*crashCase, int) device.Rule {
					return counting(&more, device.FailNth(kind, n, partly(n, errInjected)))
				}
				_, err := c.run()
				require.NoError(t, err, "operation %d of kind %d", n, kind)
			}
			require.Greater(t, n, 4)
		}
	}
}

// counting notes whether rule has failed anything.
func counting(failed *bool, rule device.Rule) device.Rule {
	*failed = false
	return func(op device.Op) error {
		err := rule(op)
		*failed = *failed || err != nil
		return err
	}
}

// partly lets every other error come after a sector was written.
func partly(n int, err error) error {
	if n%2 == 0 {
		return &device.ShortError{Done: device.SectorSize, Err: err}
	}
	return err
}

// TestNoFlush: with NoFlush nothing is flushed at all.
func TestNoFlush(t *testing.T) {
	l := newTestLog(1024, 64, nil)
	rec := device.NewRecorder(l.dev)
	l.use(rec)
	o := l.options()
	o.NoFlush = true
	j, err := Open(o)
	require.NoError(t, err)
	for i := range uint64(40) {
		require.NoError(t, set(j, fillWith(i), 3, 4, 5))
	}
	require.NoError(t, j.SyncAll())
	require.NoError(t, j.Close())
	for _, e := range rec.Trace().Events {
		require.Equal(t, device.EventWrite, e.Kind)
		require.False(t, e.FUA)
	}
	require.NoError(t, l.want(4, 39))
	require.Zero(t, j.Stats().Flushes)
}

func ExampleJournal() {
	l := newTestLog(1024, 64, nil)
	j, _ := Open(l.options())
	tx, _ := j.Begin()
	defer tx.Abort()
	p, _ := tx.Change(7)
	copy(p, "a change")
	tid, _ := tx.Commit()
	fmt.Println(j.Durable(tid))
	fmt.Println(j.Sync(tid), j.Durable(tid))
	fmt.Println(j.Close())
	// Output:
	// false
	// <nil> true
	// <nil>
}
