package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Netns holds a network namespace open by a file descriptor: no name, no
// process, nothing that could outlive this program.
type Netns struct{ file *os.File }

// NewNetns makes an empty network namespace; see NewNetnses.
func NewNetns() (*Netns, error) {
	all, err := NewNetnses(1)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// NewNetnses makes n network namespaces on one thread. IPv6 is off in them, so
// that nothing but the study's own traffic is on their links.
func NewNetnses(n int) ([]*Netns, error) {
	all := make([]*Netns, 0, n)
	err := onThrowawayThread(func() error {
		for range n {
			ns, err := unshareNetns()
			if err != nil {
				return fmt.Errorf("making network namespace %d of %d: %w", len(all)+1, n, err)
			}
			all = append(all, ns)
		}
		return nil
	})
	if err != nil {
		for _, ns := range all {
			err = errors.Join(err, ns.Close())
		}
		return nil, err
	}
	return all, nil
}

// unshareNetns takes the calling thread to a new namespace.
func unshareNetns() (*Netns, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("unsharing: %w", err)
	}
	if err := WriteSysctl("net/ipv6/conf/all/disable_ipv6", "1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return currentNetns()
}

// OwnNetns is the namespace that this process started in.
func OwnNetns() (*Netns, error) {
	f, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("opening the own network namespace: %w", err)
	}
	return &Netns{f}, nil
}

func currentNetns() (*Netns, error) {
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("opening a network namespace: %w", err)
	}
	return &Netns{f}, nil
}

// Do runs f on a thread inside the namespace. The thread is thrown away.
func (n *Netns) Do(f func() error) error {
	return onThrowawayThread(func() error {
		if err := n.enter(); err != nil {
			return err
		}
		return f()
	})
}

func (n *Netns) enter() error {
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering a network namespace: %w", err)
	}
	return nil
}

// FD is the descriptor that holds the namespace; it stays Netns's own.
func (n *Netns) FD() int { return int(n.file.Fd()) }

// Path is a file by which other programs of this pid namespace can enter it,
// for as long as Netns holds it.
func (n *Netns) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.FD()) }

// Close lets go of the namespace; the kernel removes it, with its devices and
// rules, when no process is left in it. Closing twice is fine.
func (n *Netns) Close() error {
	if err := n.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("closing a network namespace: %w", err)
	}
	return nil
}
