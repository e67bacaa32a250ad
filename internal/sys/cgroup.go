package sys

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Cgroups is where this program may make cgroups: version 1 hierarchies, or
// the one of version 2.
type Cgroups struct {
	Version int
	roots   map[string]string // controller to folder; version 2: "" only
}

// cgroupParent holds every cgroup that this program makes.
const cgroupParent = "windtunnel"

// FindCgroups looks for cgroups that can be written to. The error says in
// words why there are none.
func FindCgroups() (*Cgroups, error) {
	return findCgroups("/sys/fs/cgroup")
}

func findCgroups(base string) (*Cgroups, error) {
	if _, err := os.Stat(filepath.Join(base, "cgroup.controllers")); err == nil {
		c := &Cgroups{Version: 2, roots: map[string]string{"": filepath.Join(base, cgroupParent)}}
		return c, c.prepareV2(base)
	}
	c := &Cgroups{Version: 1, roots: map[string]string{}}
	for _, controller := range []string{"cpuacct", "cpu", "memory", "cpuset"} {
		dir := filepath.Join(base, controller, cgroupParent)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			if controller == "cpuset" {
				continue // affinity does the same where nobody fights it
			}
			return nil, fmt.Errorf("cgroup %s cannot be made: %w", dir, err)
		}
		c.roots[controller] = dir
	}
	return c, nil
}

func (c *Cgroups) prepareV2(base string) error {
	if err := os.MkdirAll(c.roots[""], 0o755); err != nil {
		return fmt.Errorf("cgroup %s cannot be made: %w", c.roots[""], err)
	}
	return errors.Join(enableControllers(base), enableControllers(c.roots[""]))
}

func enableControllers(dir string) error {
	return writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+cpu +memory")
}

// Cgroup is one group of processes, accounted together. A nil *Cgroup is no
// group: everything about it does nothing.
type Cgroup struct {
	version int
	dirs    map[string]string
}

// New makes a cgroup by name, e.g. "lab1/server-0/app". cpus binds it where
// the host has the cpuset controller. The weight makes each group count like
// any other process group under contention.
func (c *Cgroups) New(name string, cpus []int) (*Cgroup, error) {
	g := &Cgroup{version: c.Version, dirs: map[string]string{}}
	for controller, root := range c.roots {
		dir := filepath.Join(root, name)
		if err := c.makeDir(controller, root, name); err != nil {
			return nil, errors.Join(err, g.Remove())
		}
		g.dirs[controller] = dir
	}
	if dir, ok := g.dirs["cpuset"]; ok && len(cpus) > 0 {
		if err := writeFile(filepath.Join(dir, "cpuset.cpus"), joinInts(cpus)); err != nil {
			return nil, errors.Join(err, g.Remove())
		}
	}
	return g, nil
}

// makeDir makes a group and those above it; cpusets and version 2 need theirs
// filled in from the top.
func (c *Cgroups) makeDir(controller, root, name string) error {
	parent := root
	if controller == "cpuset" {
		if err := inheritCpuset(root); err != nil {
			return err
		}
	}
	for _, part := range strings.Split(name, "/") {
		if c.Version == 2 && parent != root {
			if err := enableControllers(parent); err != nil {
				return err
			}
		}
		parent = filepath.Join(parent, part)
		if err := os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making cgroup %s: %w", parent, err)
		}
		if controller == "cpuset" {
			if err := inheritCpuset(parent); err != nil {
				return err
			}
		}
	}
	return nil
}

// inheritCpuset fills a new cpuset group, which begins empty, from its parent.
func inheritCpuset(dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return fmt.Errorf("reading a cpuset: %w", err)
		}
		if len(bytes.TrimSpace(own)) > 0 {
			continue
		}
		above, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if err != nil {
			return fmt.Errorf("reading a cpuset: %w", err)
		}
		if err := writeFile(filepath.Join(dir, file), string(bytes.TrimSpace(above))); err != nil {
			return err
		}
	}
	return nil
}

// Limit bounds the group: cpu in cores, memory in bytes; 0 is no limit.
func (g *Cgroup) Limit(cpu float64, memory uint64) error {
	if g == nil || (cpu == 0 && memory == 0) {
		return nil
	}
	const period = 100_000 // microseconds: the kernel's default
	var errs []error
	if cpu > 0 {
		quota := strconv.Itoa(int(cpu * period))
		if g.version == 2 {
			errs = append(errs, writeFile(filepath.Join(g.dirs[""], "cpu.max"), fmt.Sprintf("%s %d", quota, period)))
		} else {
			errs = append(errs, writeFile(filepath.Join(g.dirs["cpu"], "cpu.cfs_quota_us"), quota))
		}
	}
	if memory > 0 {
		file := filepath.Join(g.dirs["memory"], "memory.limit_in_bytes")
		if g.version == 2 {
			file = filepath.Join(g.dirs[""], "memory.max")
		}
		errs = append(errs, writeFile(file, strconv.FormatUint(memory, 10)))
	}
	return errors.Join(errs...)
}

// join moves the calling thread into the group, so that what it forks is born
// there. Version 2 cannot move one thread; there the fork itself does it.
// release is called after the fork.
func (g *Cgroup) join(attr *syscall.SysProcAttr) (release func() error, err error) {
	release = func() error { return nil }
	if g == nil {
		return release, nil
	}
	if g.version == 2 {
		fd, err := unix.Open(g.dirs[""], unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return release, fmt.Errorf("opening a cgroup: %w", err)
		}
		attr.UseCgroupFD, attr.CgroupFD = true, fd
		return func() error { return unix.Close(fd) }, nil
	}
	tid := strconv.Itoa(unix.Gettid())
	for _, dir := range g.dirs {
		if err := writeFile(filepath.Join(dir, "tasks"), tid); err != nil {
			return release, err
		}
	}
	return release, nil
}

// Files returns the files that the group's usage is read from: CPU time, CPU
// throttling and memory, in this version's formats.
func (g *Cgroup) Files() (cpu, throttling, memory string) {
	if g.version == 2 {
		dir := g.dirs[""]
		return filepath.Join(dir, "cpu.stat"), filepath.Join(dir, "cpu.stat"), filepath.Join(dir, "memory.current")
	}
	return filepath.Join(g.dirs["cpuacct"], "cpuacct.usage"), filepath.Join(g.dirs["cpu"], "cpu.stat"), filepath.Join(g.dirs["memory"], "memory.usage_in_bytes")
}

// Kill kills every process of the group.
func (g *Cgroup) Kill() error {
	if g == nil {
		return nil
	}
	var errs []error
	for _, dir := range g.dirs {
		errs = append(errs, killAll(dir))
		break // the controllers hold the same processes
	}
	return errors.Join(errs...)
}

func killAll(dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing the processes of %s: %w", dir, err)
	}
	for _, field := range strings.Fields(string(raw)) {
		pid, err := strconv.Atoi(field)
		if err != nil || pid <= 1 {
			continue // 0: a process of another pid namespace, not ours to end
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("killing process %d of %s: %w", pid, dir, err)
		}
	}
	return nil
}

// Remove removes the group; its processes must have ended or be about to.
func (g *Cgroup) Remove() error {
	if g == nil {
		return nil
	}
	var errs []error
	for _, dir := range g.dirs {
		errs = append(errs, RemoveCgroup(dir))
	}
	return errors.Join(errs...)
}

// RemoveCgroup removes a cgroup folder and those below it, waiting up to two
// seconds for the kernel to bury its dead.
func RemoveCgroup(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("listing cgroup %s: %w", dir, err)
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := removeOne(dirs[i]); err != nil {
			return err
		}
	}
	return nil
}

func removeOne(dir string) error {
	for try := 0; ; try++ {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || try == 200 {
			return fmt.Errorf("removing cgroup %s: %w", dir, err)
		}
		if try == 20 {
			if err := killAll(dir); err != nil {
				return err
			}
		}
		<-time.NewTimer(10 * time.Millisecond).C
	}
}

// Dirs returns the folders of a top-level group by name in all hierarchies.
func (c *Cgroups) Dirs(name string) []string {
	var dirs []string
	for _, root := range c.roots {
		dirs = append(dirs, filepath.Join(root, name))
	}
	return dirs
}

// Names lists the top-level groups that exist: one a lab.
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

func writeFile(path, value string) error {
	if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
		return fmt.Errorf("writing %q: %w", value, err)
	}
	return nil
}

func joinInts(v []int) string {
	parts := make([]string, len(v))
	for i, n := range v {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ",")
}
