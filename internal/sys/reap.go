package sys

import (
	"context"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// reapOrphans buries, for as long as this process lives, the children that it
// never started: process 1 inherits every orphan of its pid namespace. Those
// that Start made are left to their waiters.
func reapOrphans() {
	ended := make(chan os.Signal, 1) // one is enough: each makes for a full look
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		own := unix.Getpgrp()
		for range ended {
			for _, pid := range orphans() {
				reapOrphan(pid, own)
			}
		}
	}()
}

// reapOrphan buries a dead child that leads no process group: what Start made
// leads its own until it is waited for, and what others start in this process
// stays in this process's group.
func reapOrphan(pid, own int) {
	group, err := unix.Getpgid(pid)
	if err != nil || group == pid || group == own {
		return
	}
	// An error says that it lives or is gone: either way not to be buried now.
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
}

// orphans lists the children of this process's first thread, which is the one
// that inherits orphans. Few kernels lack the file; without it orphans stay
// undead until the lab ends, which harms nobody.
func orphans() []int {
	pid := strconv.Itoa(os.Getpid())
	raw, err := ReadFile("/proc/self/task/" + pid + "/children")
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(raw)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// BuryOrphans buries every dead child until the context ends, for a process 1
// that starts none itself.
func BuryOrphans(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
		}
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
}
