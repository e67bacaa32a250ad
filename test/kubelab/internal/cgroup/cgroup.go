// Package cgroup makes, joins and removes control groups, of version 1 and 2.
package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tree is where control groups are mounted: one folder in version 2, one a
// hierarchy in version 1.
type Tree struct {
	Roots   []string
	Unified bool
	// Beside is version 2's folder in a hybrid. It has no controllers, but runc
	// makes groups there, too.
	Beside []string
}

// Find reads this process' mounts.
func Find() (Tree, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return Tree{}, fmt.Errorf("looking for control groups: %w", err)
	}
	defer func() { _ = file.Close() }()
	return parse(file)
}

// parse prefers version 1 when both are mounted: a hybrid's controllers are there.
func parse(mountinfo io.Reader) (Tree, error) {
	var v1, v2, beside []string
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		mount, kind := groupMount(lines.Text())
		switch {
		case kind == "cgroup" && !slices.Contains(v1, mount):
			v1 = append(v1, mount)
		case kind == "cgroup2" && mount == "/sys/fs/cgroup":
			v2 = []string{mount}
		case kind == "cgroup2":
			beside = append(beside, mount)
		}
	}
	if err := lines.Err(); err != nil {
		return Tree{}, fmt.Errorf("looking for control groups: %w", err)
	}
	switch {
	case len(v2) > 0:
		return Tree{Roots: v2, Unified: true}, nil
	case len(v1) > 0:
		slices.Sort(v1)
		return Tree{Roots: v1, Beside: beside}, nil
	default:
		return Tree{}, errors.New("no control groups are mounted below /sys/fs/cgroup: the kubelet cannot run here")
	}
}

// groupMount reads where a line of mountinfo mounts what, if it is at the place
// of control groups.
func groupMount(line string) (mount, kind string) {
	left, right, _ := strings.Cut(line, " - ")
	before, after := strings.Fields(left), strings.Fields(right)
	if len(before) < 5 || len(after) < 1 {
		return "", ""
	}
	mount = before[4]
	if mount != "/sys/fs/cgroup" && filepath.Dir(mount) != "/sys/fs/cgroup" {
		return "", ""
	}
	return mount, after[0]
}

// Create makes a group and its parents, with every controller.
func (t Tree) Create(group string) error {
	for _, root := range t.Roots {
		dir := root
		for part := range strings.SplitSeq(group, "/") {
			parent := dir
			dir = filepath.Join(dir, part)
			if err := t.step(parent, dir); err != nil {
				return fmt.Errorf("making the control group %s: %w", dir, err)
			}
		}
	}
	return nil
}

func (t Tree) step(parent, dir string) error {
	if t.Unified {
		if err := enable(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if t.Unified {
		return nil
	}
	// In version 1 a new cpuset is empty, and nothing can run in it.
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), value, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enable hands every controller of a group of version 2 on to its children.
func enable(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	on, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	for controller := range strings.FieldsSeq(string(have)) {
		if slices.Contains(strings.Fields(string(on)), controller) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("handing on the controller %s (a group with processes of its own cannot, as in most containers): %w", controller, err)
		}
	}
	return nil
}

// Join moves this process into a group.
func (t Tree) Join(group string) error {
	for _, root := range t.Roots {
		if err := os.WriteFile(filepath.Join(root, group, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return fmt.Errorf("joining the control group %s: %w", group, err)
		}
	}
	return nil
}

// Shares sets a group's share of the CPU, in version 1's unit: 1024 is usual.
func (t Tree) Shares(group string, shares int) error {
	for _, root := range t.Roots {
		file, value := filepath.Join(root, group, "cpu.shares"), shares
		if t.Unified {
			// The kubelet's and runc's formula.
			file, value = filepath.Join(root, group, "cpu.weight"), 1+(shares-2)*9999/262142
		}
		if _, err := os.Stat(file); err != nil {
			continue
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(value)), 0o644); err != nil {
			return fmt.Errorf("setting the CPU share of %s: %w", group, err)
		}
	}
	return nil
}

// Processes lists the processes in a group and all below it.
func (t Tree) Processes(group string) []int {
	var found []int
	for _, dir := range t.Left(group) {
		// A group that ends meanwhile has no processes.
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 && !slices.Contains(found, pid) {
				found = append(found, pid)
			}
		}
	}
	return found
}

// Left lists what is left of a group, in all hierarchies.
func (t Tree) Left(group string) []string {
	var left []string
	for _, root := range slices.Concat(t.Roots, t.Beside) {
		_ = filepath.WalkDir(filepath.Join(root, group), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				left = append(left, path)
			}
			return nil
		})
	}
	return left
}

// Remove removes a group and all below it. The kernel may still be busy with
// the end of their last processes: it tries until the context ends.
func (t Tree) Remove(ctx context.Context, group string) error {
	for {
		left := t.Left(group)
		if len(left) == 0 {
			return nil
		}
		var last error
		for _, dir := range slices.Backward(left) {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				last = err
			}
		}
		if last == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("removing the control group %s: %w", group, last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
