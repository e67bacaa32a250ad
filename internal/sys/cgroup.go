package sys

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupBase is where every distribution mounts control groups.
const cgroupBase = "/sys/fs/cgroup"

// cgroupParent holds every cgroup that this program makes.
const cgroupParent = "windtunnel"

// unified is the name of version 2's only hierarchy.
const unified = ""

// Cgroups is where this program may make cgroups: version 1 hierarchies, or
// the one of version 2.
type Cgroups struct {
	Version int
	// Cpusets says that cgroups can bind processes to CPUs, which, unlike
	// affinity, they cannot undo.
	Cpusets bool
	roots   map[string]string // hierarchy to our folder in it
	home    map[string]string // version 1: hierarchy to the folder of this process
}

// FindCgroups looks for cgroups that can be written to. The error says in
// words why there are none.
func FindCgroups() (*Cgroups, error) {
	own, err := ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("finding the own cgroup: %w", err)
	}
	return findCgroups(cgroupBase, parseOwnCgroups(own))
}

// parseOwnCgroups reads /proc/self/cgroup, whose lines are
// "number:controller,controller:/path", into controller to path.
func parseOwnCgroups(b []byte) map[string]string {
	own := map[string]string{}
	for line := range bytes.Lines(b) {
		parts := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			own[controller] = parts[2]
		}
	}
	return own
}

func findCgroups(base string, own map[string]string) (*Cgroups, error) {
	if _, err := os.Stat(filepath.Join(base, "cgroup.controllers")); err == nil {
		return findV2(base, own[unified])
	}
	return findV1(base, own)
}

func findV1(base string, own map[string]string) (*Cgroups, error) {
	c := &Cgroups{Version: 1, roots: map[string]string{}, home: map[string]string{}}
	for _, controller := range []string{"cpuacct", "cpu", "memory", "cpuset"} {
		err := makeCgroup(filepath.Join(base, controller, cgroupParent))
		if controller == "cpuset" {
			if c.Cpusets = err == nil; !c.Cpusets {
				continue // affinity does the same where nobody fights it
			}
		}
		if err != nil {
			return nil, err
		}
		c.roots[controller] = filepath.Join(base, controller, cgroupParent)
		c.home[controller] = filepath.Join(base, controller, own[controller])
		if _, err := os.Stat(c.home[controller]); err != nil {
			c.home[controller] = filepath.Join(base, controller) // a container sees its own cgroup as the root
		}
	}
	return c, nil
}

// findV2 takes the root or, where that is not ours to write, the nearest
// cgroup above the own one that is: a process may only be moved below a common
// ancestor that its user may write.
func findV2(base, own string) (*Cgroups, error) {
	candidates := []string{base}
	for dir := filepath.Dir(own); len(dir) > 1; dir = filepath.Dir(dir) {
		candidates = append(candidates, filepath.Join(base, dir))
	}
	var errs []error
	for _, dir := range candidates {
		c := &Cgroups{Version: 2, roots: map[string]string{unified: filepath.Join(dir, cgroupParent)}}
		err := c.prepareV2(dir)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (c *Cgroups) prepareV2(dir string) error {
	if err := unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK); err != nil {
		return fmt.Errorf("cgroup %s cannot be written: %w", dir, err)
	}
	if err := enableControllers(dir); err != nil {
		return err
	}
	if err := makeCgroup(c.roots[unified]); err != nil {
		return err
	}
	c.Cpusets = writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+cpuset") == nil &&
		writeFile(filepath.Join(c.roots[unified], "cgroup.subtree_control"), "+cpuset") == nil
	return enableControllers(c.roots[unified])
}

// enableControllers lets the groups below dir account for CPU and memory.
// What is enabled already is left alone: writing may be forbidden.
func enableControllers(dir string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	enabled, err := ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading what cgroup %s accounts for: %w", dir, err)
	}
	have := strings.Fields(string(enabled))
	if slices.Contains(have, "cpu") && slices.Contains(have, "memory") {
		return nil
	}
	return writeFile(file, "+cpu +memory")
}

func makeCgroup(dir string) error {
	if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cgroup %s cannot be made: %w", dir, err)
	}
	return nil
}

// Lab makes the group that holds all groups of one lab. Its folders, in all
// hierarchies, can be removed by RemoveCgroup when the lab was killed.
func (c *Cgroups) Lab(name string) (*Cgroup, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // no group is a valid group
	}
	top := &Cgroup{in: c, dirs: c.roots}
	g, err := top.Sub(name)
	if err != nil || c.Version != 1 || !c.Cpusets {
		return g, err
	}
	// Version 1's cpusets are no tree like the others: one group for each set of CPUs.
	cpusets := g.dirs["cpuset"]
	delete(g.dirs, "cpuset")
	g.cpusets = cpusets
	return g, errors.Join(inheritCpuset(c.roots["cpuset"]), inheritCpuset(cpusets))
}

// Dirs returns the folders of a lab's groups in all hierarchies, whether they
// exist or not.
func (c *Cgroups) Dirs(lab string) []string {
	var dirs []string
	for _, root := range c.roots {
		dirs = append(dirs, filepath.Join(root, lab))
	}
	return dirs
}

// Names lists the labs that have groups.
func (c *Cgroups) Names() []string {
	seen := map[string]bool{}
	var names []string
	for _, root := range c.roots {
		entries, err := os.ReadDir(root)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.IsDir() && !seen[e.Name()] {
				seen[e.Name()] = true
				names = append(names, e.Name())
			}
		}
	}
	return names
}

// RemoveParent removes the folder that holds all labs, if it is empty.
func (c *Cgroups) RemoveParent() {
	for _, dir := range c.roots {
		_ = unix.Rmdir(dir) // another lab may be using it
	}
}

// inheritCpuset fills a new cpuset group, which begins empty, from its parent.
func inheritCpuset(dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := ReadFile(filepath.Join(dir, file))
		if err != nil {
			return fmt.Errorf("reading a cpuset: %w", err)
		}
		if len(bytes.TrimSpace(own)) > 0 {
			continue
		}
		above, err := ReadFile(filepath.Join(filepath.Dir(dir), file))
		if err != nil {
			return fmt.Errorf("reading a cpuset: %w", err)
		}
		if err := writeFile(filepath.Join(dir, file), string(bytes.TrimSpace(above))); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path, value string) error {
	if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
		return fmt.Errorf("writing %q: %w", value, err)
	}
	return nil
}
