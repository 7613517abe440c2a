package oracle

import (
	"os/exec"
	"syscall"
)

// guard starts a process that unmounts dir when this one has ended, even by
// kill -9: it waits for the end of a pipe that only this process holds. It has a
// session of its own, so that signals to the group of the test spare it. What it
// returns ends it early.
func guard(dir string) (release func(), err error) {
	cmd := exec.Command("sh", "-c", `cat > /dev/null; umount --lazy "$0"`, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		cmd.Process.Kill()
		hold.Close()
		cmd.Wait()
	}, nil
}
