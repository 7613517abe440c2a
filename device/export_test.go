package device

import (
	"errors"
	"os"
	"testing"
)

// LackUnnamed makes the host lack files without a name until the test ends.
func LackUnnamed(t *testing.T) {
	old := openUnnamed
	openUnnamed = func(string) (*os.File, error) { return nil, errors.ErrUnsupported }
	t.Cleanup(func() { openUnnamed = old })
}

// LackRename makes the host lack a rename that never replaces until the test ends.
func LackRename(t *testing.T) {
	old := renameOnce
	renameOnce = func(string, string) error { return errors.ErrUnsupported }
	t.Cleanup(func() { renameOnce = old })
}
