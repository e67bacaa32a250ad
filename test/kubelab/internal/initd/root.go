package initd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/unit"
)

// Folders are where a unit's parts are on the host.
type Folders struct {
	Root, Bin, Images, Log string
}

// enter makes the unit's root folder the root of this mount namespace. Of the
// host's files the unit sees its programs and /etc, read-only: what it writes
// lands in its own folder.
func enter(f Folders) error {
	// With shared mounts, what follows would happen on the host, too.
	steps := []func() error{
		func() error { return mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE) },
		func() error { return mount(f.Root, f.Root, "", unix.MS_BIND) },
		func() error { return system(f.Root) },
		func() error { return bind(f.Bin, f.Root+unit.Bin, true) },
		func() error { return bind(f.Images, f.Root+unit.Images, true) },
		func() error { return bind(f.Log, f.Root+unit.Log, false) },
		func() error { return devices(f.Root) },
		func() error { return pivot(f.Root) },
		// Pods' volumes may ask for propagation. Only now: see the first step.
		func() error { return mount("", "/", "", unix.MS_REC|unix.MS_SHARED) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// system mounts the host's programs and libraries and /etc.
func system(root string) error {
	for _, name := range []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc"} {
		from, to := "/"+name, filepath.Join(root, name)
		info, err := os.Lstat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking at %s: %w", from, err)
		}
		if info.Mode()&os.ModeSymlink == 0 {
			if err = bind(from, to, true); err != nil {
				return err
			}
			continue
		}
		target, err := os.Readlink(from)
		if err != nil {
			return fmt.Errorf("reading the link %s: %w", from, err)
		}
		if err = os.Symlink(target, to); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("linking %s: %w", to, err)
		}
	}
	return nil
}

// devices mounts /dev, and what belongs to the unit's own namespaces: /proc and
// /sys. The control groups are the host's, for the kubelet works below its own.
func devices(root string) error {
	for _, dir := range []string{"dev", "proc", "sys", "run", "tmp", "var/log", "var/lib", "root", "opt"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return fmt.Errorf("making /%s of the unit: %w", dir, err)
		}
	}
	if err := mount("/dev", root+"/dev", "", unix.MS_BIND|unix.MS_REC); err != nil {
		return err
	}
	if err := mount("proc", root+"/proc", "proc", 0); err != nil {
		return err
	}
	if err := mount("sysfs", root+"/sys", "sysfs", 0); err != nil {
		return err
	}
	if err := mount("/sys/fs/cgroup", root+"/sys/fs/cgroup", "", unix.MS_BIND|unix.MS_REC); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", root+"/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	for _, dir := range []string{"netns", "lock"} {
		if err := os.MkdirAll(filepath.Join(root, "run", dir), 0o755); err != nil {
			return fmt.Errorf("making /run/%s: %w", dir, err)
		}
	}
	return nil
}

func pivot(root string) error {
	const old = "/.host"
	if err := os.MkdirAll(root+old, 0o700); err != nil {
		return fmt.Errorf("making a folder for the old root: %w", err)
	}
	if err := unix.PivotRoot(root, root+old); err != nil {
		return fmt.Errorf("making %s the root: %w", root, err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("going to the new root: %w", err)
	}
	if err := unix.Unmount(old, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the old root: %w", err)
	}
	if err := os.Remove(old); err != nil {
		return fmt.Errorf("removing the old root's folder: %w", err)
	}
	return nil
}

func bind(from, to string, readOnly bool) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", to, err)
	}
	if err := mount(from, to, "", unix.MS_BIND|unix.MS_REC); err != nil {
		return err
	}
	if !readOnly {
		return nil
	}
	return mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY)
}

func mount(from, to, kind string, flags uintptr) error {
	if err := unix.Mount(from, to, kind, flags, ""); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", from, to, err)
	}
	return nil
}
