package ext4

import (
	"errors"

	"drydock/format"
)

func (t *Tx) addOrphan(ino format.Ino) error    { return errors.New("no orphan list") }
func (t *Tx) removeOrphan(ino format.Ino) error { return errors.New("no orphan list") }
func (t *Tx) useLargeFile() error               { return errors.New("feature large_file is not set") }
