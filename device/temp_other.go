//go:build !linux

package device

import (
	"errors"
	"os"
)

// Only Linux has files without a name and a rename that never replaces.

func createUnnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func linkUnnamed(*os.File, string) error { return errors.ErrUnsupported }

func renameExclusive(string, string) error { return errors.ErrUnsupported }
