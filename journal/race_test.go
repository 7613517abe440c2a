package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
	"drydock/format"
)

// Accounts: each block holds an amount of money, and Txs move it. Whoever looks
// at all of them at once finds the same sum, now and after a crash.
const (
	firstAccount = format.Block(2)
	accounts     = homeBlocks - int(firstAccount)
	riches       = 1000
)

func amount(p []byte) uint64 { return binary.LittleEndian.Uint64(p[64:]) }

func setAmount(p []byte, v uint64) {
	for i := 64; i < len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], v)
	}
}

// bank opens accounts.
func bank(t *testing.T, o Options) *Journal {
	j, err := Open(o)
	require.NoError(t, err)
	for b := firstAccount; b < homeBlocks; b += 4 {
		require.NoError(t, set(j, func(_ format.Block, p []byte) { setAmount(p, riches) }, b, b+1, min(b+2, homeBlocks-1), min(b+3, homeBlocks-1)))
	}
	return j
}

// move does one Tx that moves money between some accounts.
func move(j *Journal, r *rand.Rand) (format.Tid, error) {
	tx, err := j.Begin()
	if err != nil {
		return 0, err
	}
	defer tx.Abort()
	for range 1 + r.IntN(2) {
		from, to := firstAccount+format.Block(r.IntN(accounts)), firstAccount+format.Block(r.IntN(accounts))
		err := tx.Try(func() error {
			a, err := tx.Change(from)
			if err != nil {
				return err
			}
			n := min(amount(a), r.Uint64N(50))
			setAmount(a, amount(a)-n)
			b, err := tx.Change(to)
			if err != nil {
				return err
			}
			setAmount(b, amount(b)+n)
			if r.IntN(5) == 0 {
				return errTry
			}
			return nil
		})
		if err != nil && !errors.Is(err, errTry) {
			return 0, err
		}
	}
	if r.IntN(10) == 0 {
		return 0, nil
	}
	return tx.Commit()
}

// sum adds up all accounts.
func sum(read func(b format.Block) ([]byte, error)) error {
	total := uint64(0)
	for b := firstAccount; b < homeBlocks; b++ {
		p, err := read(b)
		if err != nil {
			return err
		}
		for i := 64; i < len(p); i += 8 {
			if binary.LittleEndian.Uint64(p[i:]) != amount(p) {
				return fmt.Errorf("block %d is torn", b)
			}
		}
		total += amount(p)
	}
	if want := uint64(accounts * riches); total != want {
		return fmt.Errorf("sum is %d, want %d", total, want)
	}
	return nil
}

// look sums up in one View.
func look(j *Journal) error {
	return j.View(func() error {
		return sum(func(b format.Block) ([]byte, error) {
			v, err := j.Get(b)
			if err != nil {
				return nil, err
			}
			v.SetChecked()
			return v.Bytes(), nil
		})
	})
}

// TestConcurrentUse has many goroutines use a journal in all ways, with small
// logs, and little memory, so that everything waits for everything else.
func TestConcurrentUse(t *testing.T) {
	for _, policy := range []CopyPolicy{CopyOnDemand, CopyAlways, CopyWait} {
		for _, size := range []uint32{32, 200} {
			l := newTestLog(1024, size, nil)
			o := l.options()
			o.Memory, o.Policy = 1, policy
			concurrently(t, bank(t, o))
			require.NoError(t, diskSum(l))
		}
	}
	l := newTestLog(1024, 32, nil)
	o := l.options()
	o.Area = nil
	concurrently(t, bank(t, o))
	require.NoError(t, diskSum(l))
}

func diskSum(l *testLog) error {
	return sum(func(b format.Block) ([]byte, error) {
		p := make([]byte, l.size)
		return p, readFull(l.dev, p, int64(b)*int64(l.size))
	})
}

// concurrently moves and looks at money, and closes.
func concurrently(t *testing.T, j *Journal) {
	const rounds = 150
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	do := func(n int, fn func(r *rand.Rand) error) {
		for i := range n {
			group.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 9))
				for range rounds {
					if err := fn(r); err != nil {
						failed.CompareAndSwap(nil, &err)
						return
					}
				}
			})
		}
	}
	do(4, func(r *rand.Rand) error {
		tid, err := move(j, r)
		if err == nil && r.IntN(8) == 0 {
			err = j.Sync(tid)
			if err == nil && !j.Durable(tid) {
				return errors.New("synced and not durable")
			}
		}
		return err
	})
	do(2, func(*rand.Rand) error { return look(j) })
	do(1, func(r *rand.Rand) error {
		p := make([]byte, 5*1024)
		return errors.Join(j.ReadBlock(3, p[:1024]), j.ReadData(format.Block(r.IntN(30)), p))
	})
	do(1, func(r *rand.Rand) error {
		switch r.IntN(8) {
		case 0:
			return j.Checkpoint()
		case 1:
			return j.SyncAll()
		case 2:
			j.StartCommit()
		}
		_ = j.Stats()
		return nil
	})
	group.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	require.NoError(t, look(j))
	require.NoError(t, j.Close())
}

// Goroutines that want to be synced at the same time share commits and flushes.
func TestGroupCommit(t *testing.T) {
	const workers, rounds = 16, 20
	l := newTestLog(1024, 1000, func(dev device.Device) device.Device { return slow{dev} })
	j := bank(t, l.options())
	before := j.Stats()
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for range rounds {
				tid, err := move(j, r)
				if err == nil {
					err = j.SyncData(tid)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	s := j.Stats()
	t.Logf("%d commits, %d flushes", s.Commits-before.Commits, s.Flushes-before.Flushes)
	require.Less(t, s.Commits-before.Commits, uint64(workers*rounds/3))
	require.NoError(t, j.Close())
	require.NoError(t, diskSum(l))
}

// slow is a device whose flush takes time.
type slow struct{ device.Device }

// Flush implements device.Device.
func (s slow) Flush() error {
	pause()
	return s.Device.Flush()
}
