package journal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock/device"
)

// rules are the rules of ordering that the writer keeps, each with what breaks it
// and with the histories that must show that it is broken. ids are those of known
// bugs of the kind.
var rules = []struct {
	rule   string
	ids    string
	broken func(*faults)
	with   func(*crashCase)   // what the histories must have for it; nil: nothing
	show   func(faults) error // one history that shows it; nil: random ones do
}{
	{"log blocks are durable before the commit block", "",
		func(f *faults) { f.noFlushBeforeCommit = true }, nil, nil},
	{"file data is durable before the commit block, with an external log too", "K03",
		func(f *faults) { f.noFlushOfHome = true }, func(c *crashCase) { c.external = true }, nil},
	{"the commit block is durable before Sync returns", "",
		func(f *faults) { f.commitWithoutFUA = true }, nil, nil},
	{"freed blocks are used again only after the commit", "",
		func(f *faults) { f.releaseBeforeDurable = true }, nil, nil},
	{"the file system needs recovery, on the disk, before the first log block", "O06",
		func(f *faults) { f.noBeforeLog = true }, nil, nil},
	{"the superblock says where the log begins before the first commit", "",
		func(f *faults) { f.startAfterCommit = true }, nil, nil},
	{"the superblock has all features that the log uses", "",
		func(f *faults) { f.noFeatures = true }, nil, nil},
	{"commit times never go back", "",
		func(f *faults) { f.timeGoesBack = true }, nil, clockSetBack},
	{"an emptied log goes on with a number that no old block has", "E10 O01",
		func(f *faults) { f.noSequenceJump = true }, nil, nil},
	{"home blocks are durable before the tail moves", "K01",
		func(f *faults) { f.noFlushBeforeTail = true }, nil, nil},
	{"home blocks are written before the tail moves", "K09",
		func(f *faults) { f.tailBeforeHome = true }, nil, nil},
	{"the new tail is durable before its space is used again", "K02",
		func(f *faults) { f.tailWithoutFUA = true }, nil, nil},
	{"only what is committed goes home", "K09",
		func(f *faults) { f.checkpointUncommitted = true }, nil, nil},
	{"a freed block leaves the checkpoint", "K05 K06",
		func(f *faults) { f.keepForgotten = true }, nil, nil},
	{"a freed block is used again only after a checkpoint has written it", "K05",
		func(f *faults) { f.noWaitForHome = true }, nil, writtenWhileFreed},
	{"a freed block is revoked", "",
		func(f *faults) { f.noRevoke = true }, nil, nil},
	{"a block that is used again in the same transaction is not revoked", "",
		func(f *faults) { f.keepRevoke = true }, nil, usedAgain},
	{"a block that looks like the journal's own is escaped", "E01",
		func(f *faults) { f.noEscape = true }, nil, escapeHistory},
	{"an error in the log aborts", "K10",
		func(f *faults) { f.ignoreLogError = true }, func(c *crashCase) { c.rule = failSome(logRange) }, nil},
	{"an error in a checkpoint aborts, and the tail stays", "K10",
		func(f *faults) { f.ignoreHomeError = true }, func(c *crashCase) { c.rule = failSome(homeRange) }, nil},
	{"an error in the journal superblock aborts, and the tail stays", "K11",
		func(f *faults) { f.ignoreSuperblockError = true }, func(c *crashCase) { c.rule = failSome(superRange) }, nil},
}

// failSome returns rules that fail one write to a part of the disk in each life,
// another one in each.
func failSome(part func(c *crashCase, op device.Op) bool) func(*crashCase, int) device.Rule {
	return func(c *crashCase, life int) device.Rule {
		left := 1 + int(c.seed)%7 + 5*life
		return func(op device.Op) error {
			if op.Kind&(device.OpWrite|device.OpFUA) == 0 || !part(c, op) {
				return nil
			}
			if left--; left == 0 {
				return errInjected
			}
			return nil
		}
	}
}

func homeRange(c *crashCase, op device.Op) bool {
	return op.Off >= firstFree*int64(c.blockSize) && op.Off < homeBlocks*int64(c.blockSize)
}

func superRange(c *crashCase, op device.Op) bool { return op.Off == homeBlocks*int64(c.blockSize) }

func logRange(c *crashCase, op device.Op) bool { return op.Off > homeBlocks*int64(c.blockSize) }

// TestRulesAreNeeded breaks each rule and demands that a history shows it, which
// shows nothing while the rule is kept.
func TestRulesAreNeeded(t *testing.T) {
	for _, rule := range rules {
		t.Run(rule.rule, func(t *testing.T) {
			var f faults
			rule.broken(&f)
			show := rule.show
			if show == nil {
				show = randomHistories(rule.with)
			}
			err := show(f)
			require.Error(t, err, "the rule is broken")
			t.Logf("found: %v", err)
			require.NoError(t, show(faults{}), "the rule is kept")
		})
	}
}

// randomHistories goes through histories until one shows something. With nothing
// broken it does as many as it took with the rule broken.
func randomHistories(with func(*crashCase)) func(faults) error {
	seeds := uint64(60)
	return func(f faults) error {
		for seed := range seeds {
			c := randomCase(seed)
			c.blockSize, c.lives, c.random, c.faults = 1024, 2, 3, f
			if with != nil {
				with(&c)
			}
			if _, err := c.run(); err != nil {
				seeds = seed + 1
				return err
			}
		}
		return nil
	}
}
