//go:build !linux

package build

import "os"

// openUnnamed opens a new file in dir, without a name where the host can do that.
func openUnnamed(dir string) (f *os.File, name string, err error) { return openTemp(dir) }
