package journal

import (
	"iter"

	"drydock/format"
)

// FastCommits yields the records of the complete fast commits that follow the
// last transaction, in order; without HEAD, PAD and TAIL.
func (r *Recovery) FastCommits() iter.Seq2[format.FCRecord, error] {
	return func(func(format.FCRecord, error) bool) {}
}
