package journal

// faults break one rule each, on purpose; its zero value breaks none. For tests,
// which must notice.
type faults struct {
	keepForgotten bool // a freed block is still written home by a checkpoint
}
