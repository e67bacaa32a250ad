package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Cgroup is a group of processes, accounted together, or of such groups. Only
// groups without groups below them may hold processes. A nil *Cgroup is no
// group: everything about it does nothing.
type Cgroup struct {
	in      *Cgroups
	dirs    map[string]string // hierarchy to folder
	cpusets string            // of a lab, version 1: where its sets of CPUs are
	bound   string            // version 1: the set of CPUs that processes join

	mu      sync.Mutex
	subs    map[string]*Cgroup
	limited bool
}

// Sub returns the group of that name below this one, making it on first use.
func (g *Cgroup) Sub(name string) (*Cgroup, error) {
	if g == nil {
		return nil, nil //nolint:nilnil // no group is a valid group
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if sub := g.subs[name]; sub != nil {
		return sub, nil
	}
	if g.in.Version == 2 {
		if err := g.delegate(); err != nil {
			return nil, err
		}
	}
	sub := &Cgroup{in: g.in, dirs: map[string]string{}, cpusets: g.cpusets}
	for hierarchy, dir := range g.dirs {
		sub.dirs[hierarchy] = filepath.Join(dir, name)
		if err := makeCgroup(sub.dirs[hierarchy]); err != nil {
			return nil, errors.Join(err, sub.Remove())
		}
	}
	if g.subs == nil {
		g.subs = map[string]*Cgroup{}
	}
	g.subs[name] = sub
	return sub, nil
}

// delegate lets version 2's groups below g use what g may use.
func (g *Cgroup) delegate() error {
	dir := g.dirs[unified]
	if g.in.Cpusets {
		if err := writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+cpuset"); err != nil {
			return err
		}
	}
	return enableControllers(dir)
}

// Limit bounds the group: cpu in cores, memory in bytes; 0 is no limit.
func (g *Cgroup) Limit(cpu float64, memory uint64) error {
	limited := cpu > 0 || memory > 0
	if g == nil || !limited && !g.limited {
		return nil
	}
	g.limited = limited
	const period = 100_000 // microseconds: the kernel's default
	if g.in.Version == 2 {
		quota, bytes := "max", "max"
		if cpu > 0 {
			quota = strconv.Itoa(int(cpu * period))
		}
		if memory > 0 {
			bytes = strconv.FormatUint(memory, 10)
		}
		return errors.Join(g.write(unified, "cpu.max", fmt.Sprintf("%s %d", quota, period)), g.write(unified, "memory.max", bytes))
	}
	quota, bytes := "-1", "-1"
	if cpu > 0 {
		quota = strconv.Itoa(int(cpu * period))
	}
	if memory > 0 {
		bytes = strconv.FormatUint(memory, 10)
	}
	return errors.Join(g.write("cpu", "cpu.cfs_quota_us", quota), g.write("memory", "memory.limit_in_bytes", bytes))
}

// Limits reads back what the group is bounded by: cores and bytes, 0 where there
// is no limit. The kernel rounds memory down to whole pages.
func (g *Cgroup) Limits() (cpu float64, memory uint64, err error) {
	if g == nil {
		return 0, 0, nil
	}
	files := [][2]string{{"cpu", "cpu.cfs_quota_us"}, {"cpu", "cpu.cfs_period_us"}, {"memory", "memory.limit_in_bytes"}}
	if g.in.Version == 2 {
		files = [][2]string{{unified, "cpu.max"}, {unified, "memory.max"}}
	}
	var said []string
	for _, f := range files {
		text, err := g.read(f[0], f[1])
		if err != nil {
			return 0, 0, err
		}
		said = append(said, strings.Fields(text)...) // cpu.max has quota and period
	}
	if len(said) != 3 { //nolint:mnd // quota, period, bytes
		return 0, 0, fmt.Errorf("reading limits: the kernel says %q", said)
	}
	return parseLimits(said[0], said[1], said[2])
}

// parseLimits reads the kernel's words; "max" and -1 are none, and so is version
// 1's largest number of bytes.
func parseLimits(quota, period, bytes string) (cpu float64, memory uint64, err error) {
	const none = "max"
	if quota != none && quota != "-1" {
		q, err1 := strconv.ParseFloat(quota, 64)
		p, err2 := strconv.ParseFloat(period, 64)
		if err1 != nil || err2 != nil || p <= 0 {
			return 0, 0, fmt.Errorf("reading a CPU limit: %q in periods of %q", quota, period)
		}
		cpu = q / p
	}
	if bytes != none {
		if memory, err = strconv.ParseUint(bytes, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("reading a memory limit: %w", err)
		}
	}
	if memory > 1<<62 { //nolint:mnd // the largest signed number, less what makes a page
		memory = 0
	}
	return cpu, memory, nil
}

func (g *Cgroup) read(hierarchy, file string) (string, error) {
	b, err := ReadFile(filepath.Join(g.dirs[hierarchy], file))
	if err != nil {
		return "", fmt.Errorf("reading a limit: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Weigh lets the group count as n groups when CPUs are short, in the
// scheduler's fair division among siblings: without it a lab of many pods would
// get no more than any single process beside it.
func (g *Cgroup) Weigh(n int) error {
	if g == nil {
		return nil
	}
	if g.in.Version == 2 {
		return g.write(unified, "cpu.weight", strconv.Itoa(min(100*max(n, 1), 10_000)))
	}
	return g.write("cpu", "cpu.shares", strconv.Itoa(min(1024*max(n, 1), 262_144)))
}

// Bind keeps the group's processes on CPUs, where the host has cpusets. It
// holds for processes that start after it.
func (g *Cgroup) Bind(cpus []int) error {
	if g == nil || !g.in.Cpusets || len(cpus) == 0 {
		return nil
	}
	list := joinInts(cpus)
	if g.in.Version == 2 {
		return g.write(unified, "cpuset.cpus", list)
	}
	dir := filepath.Join(g.cpusets, "cpus-"+list)
	if err := makeCgroup(dir); err != nil {
		return err
	}
	if err := inheritCpuset(dir); err != nil {
		return err
	}
	g.bound = dir
	return writeFile(filepath.Join(dir, "cpuset.cpus"), list)
}

func (g *Cgroup) write(hierarchy, file, value string) error {
	return writeFile(filepath.Join(g.dirs[hierarchy], file), value)
}

// join prepares the calling thread so that what it forks is born in the group.
// Version 1: the thread joins; version 2, which cannot move one thread: the
// fork itself does it. leave is called after the fork, also after an error; it
// takes the thread back to where this process belongs.
func (g *Cgroup) join(attr *syscall.SysProcAttr) (leave func() error, err error) {
	leave = func() error { return nil }
	if g == nil {
		return leave, nil
	}
	if g.in.Version == 2 {
		fd, err := unix.Open(g.dirs[unified], unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return leave, fmt.Errorf("opening a cgroup: %w", err)
		}
		attr.UseCgroupFD, attr.CgroupFD = true, fd
		return func() error { return unix.Close(fd) }, nil
	}
	leave = func() error {
		var errs []error
		for _, dir := range g.in.home {
			errs = append(errs, joinThread(dir))
		}
		return errors.Join(errs...)
	}
	for _, dir := range g.dirs {
		if err := joinThread(dir); err != nil {
			return leave, err
		}
	}
	if g.bound == "" {
		return leave, nil
	}
	return leave, joinThread(g.bound)
}

// joinThread moves the calling thread ("0") to a version 1 group.
func joinThread(dir string) error { return writeFile(filepath.Join(dir, "tasks"), "0") }

// UsageFiles is where a group's usage is read from, in the formats of its
// version. Memory and CPU are of the group and all below it; throttling is
// counted apart for each group that has a limit, and version 1 counts what was
// killed for want of memory apart for each group, so these have many files.
type UsageFiles struct {
	CPU        string
	Memory     string
	Throttling []string
	Killed     []string
}

// Files returns the files of the group's usage; see UsageFiles.
func (g *Cgroup) Files() UsageFiles {
	cpu, cpuFile, memoryFile := "cpu", filepath.Join(g.dirs["cpuacct"], "cpuacct.usage"), filepath.Join(g.dirs["memory"], "memory.usage_in_bytes")
	if g.in.Version == 2 {
		cpu, cpuFile, memoryFile = unified, filepath.Join(g.dirs[unified], "cpu.stat"), filepath.Join(g.dirs[unified], "memory.current")
	}
	f := UsageFiles{CPU: cpuFile, Memory: memoryFile}
	g.mu.Lock()
	defer g.mu.Unlock()
	// The group's own limit, if it has one, and those of the groups below it.
	for _, of := range append([]*Cgroup{g}, slices.Collect(maps.Values(g.subs))...) {
		f.Throttling = append(f.Throttling, filepath.Join(of.dirs[cpu], "cpu.stat"))
		if g.in.Version == 1 {
			f.Killed = append(f.Killed, filepath.Join(of.dirs["memory"], "memory.oom_control"))
		}
	}
	if g.in.Version == 2 {
		f.Killed = []string{filepath.Join(g.dirs[unified], "memory.events")}
	}
	return f
}

// Kill kills every process of the group; it does not wait for their end.
func (g *Cgroup) Kill() error {
	if g == nil {
		return nil
	}
	dir := g.dirs["cpuacct"] // every hierarchy holds the same processes
	if g.in.Version == 2 {
		dir = g.dirs[unified]
	}
	return killAll(dir)
}

// killAll kills until nobody is left to kill: a process may fork meanwhile.
func killAll(dir string) error {
	const rounds = 10
	for range rounds {
		raw, err := ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing the processes of %s: %w", dir, err)
		}
		victims := 0
		for field := range strings.FieldsSeq(string(raw)) {
			pid, err := strconv.Atoi(field)
			if err != nil || pid <= 1 || pid == os.Getpid() {
				continue // 0: a process of another pid namespace, not ours to end
			}
			victims++
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("killing process %d of %s: %w", pid, dir, err)
			}
		}
		if victims == 0 {
			return nil
		}
	}
	return nil
}

// Remove removes the group and those below it; their processes must have ended
// or be about to.
func (g *Cgroup) Remove() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for name, sub := range g.subs {
		if err := sub.Remove(); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(g.subs, name)
	}
	for _, dir := range g.dirs {
		errs = append(errs, removeOne(dir))
	}
	return errors.Join(errs...)
}

// RemoveSub removes the group of that name below this one.
func (g *Cgroup) RemoveSub(name string) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	sub := g.subs[name]
	delete(g.subs, name)
	g.mu.Unlock()
	return sub.Remove()
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
	for _, dir := range slices.Backward(dirs) {
		if err := removeOne(dir); err != nil {
			return err
		}
	}
	return nil
}

func removeOne(dir string) error {
	const wait, tries, patience = 10 * time.Millisecond, 200, 20
	for try := 0; ; try++ {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || try == tries {
			return fmt.Errorf("removing cgroup %s: %w", dir, err)
		}
		if try == patience {
			if err := killAll(dir); err != nil {
				return err
			}
		}
		<-time.NewTimer(wait).C
	}
}

func joinInts(v []int) string {
	parts := make([]string, len(v))
	for i, n := range v {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ",")
}
