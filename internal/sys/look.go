package sys

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Look finds a program by name in the folders of the search path.
func Look(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", name, err)
	}
	return path, nil
}

// TryNamespaces makes the namespaces that Reexec needs, around a process that
// ends at once.
func TryNamespaces(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS}
	if Rootless() {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("making namespaces: %w", err)
	}
	return nil
}
