package network

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// nsMagic is the file system type of a namespace's file.
const nsMagic = 0x6e736673

// IDOf identifies a named network namespace; 0 if there is none.
func IDOf(name string) uint64 {
	path := filepath.Join(folder, name)
	var where unix.Statfs_t
	if unix.Statfs(path, &where) != nil || where.Type != nsMagic {
		return 0
	}
	return inode(path)
}

// IDOfProcess identifies a process' network namespace; 0 if it cannot be read.
func IDOfProcess(pid int) uint64 {
	return inode(fmt.Sprintf("/proc/%d/ns/net", pid))
}

func inode(path string) uint64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return stat.Ino
}

// Left lists the names of a lab's network namespaces that exist, and its
// devices in this one.
func Left(lab string) (namespaces, devices []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("listing network namespaces: %w", err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), lab+"-") {
			namespaces = append(namespaces, entry.Name())
		}
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, nil, fmt.Errorf("listing network devices: %w", err)
	}
	for _, link := range links {
		if strings.HasPrefix(link.Attrs().Name, lab+"-") {
			devices = append(devices, link.Attrs().Name)
		}
	}
	return namespaces, devices, nil
}

// Remove removes a lab's devices and namespaces.
func Remove(lab string) error {
	namespaces, devices, err := Left(lab)
	problems := []error{err}
	for _, name := range devices {
		link, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkDel(link)
		}
		if err != nil && !errors.As(err, &netlink.LinkNotFoundError{}) {
			problems = append(problems, fmt.Errorf("removing the device %s: %w", name, err))
		}
	}
	for _, name := range namespaces {
		// EINVAL: a file without a namespace, left of a crash.
		path := filepath.Join(folder, name)
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			problems = append(problems, fmt.Errorf("unmounting %s: %w", path, err))
		}
		if err := os.Remove(path); err != nil {
			problems = append(problems, fmt.Errorf("removing the network namespace %s: %w", name, err))
		}
	}
	return errors.Join(problems...)
}

// In calls a function on a thread in a named network namespace: what it starts
// is there, too.
func In(name string, call func() error) error {
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		ns, err := netns.GetFromName(name)
		if err == nil {
			defer func() { _ = ns.Close() }()
			err = netns.Set(ns)
		}
		if err != nil {
			done <- fmt.Errorf("entering the network namespace %s: %w", name, err)
			return
		}
		done <- call()
	}()
	return <-done
}
