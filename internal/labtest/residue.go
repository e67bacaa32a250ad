package labtest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// residue lists what outlives a test only if it leaks: processes, network
// namespaces, control groups and files of the lab.
func residue() ([]string, error) {
	var found []string
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	for _, p := range processes {
		name, ended := sys.ReadFile(filepath.Join(p, "cmdline"))
		if ended == nil {
			found = append(found, "process "+filepath.Base(p)+" "+strings.ReplaceAll(string(name), "\x00", " "))
		}
	}
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, fmt.Errorf("listing open files: %w", err)
	}
	for _, d := range descriptors {
		to, closed := os.Readlink(filepath.Join("/proc/self/fd", d.Name()))
		if closed == nil && strings.HasPrefix(to, "net:") {
			found = append(found, "network namespace "+to)
		}
	}
	files, err := filepath.Glob(filepath.Join(here.target.Dir(), "*"))
	if err != nil {
		return nil, fmt.Errorf("listing the lab's files: %w", err)
	}
	found = append(found, files...)
	if groups, err := sys.FindCgroups(); err == nil {
		for _, dir := range groups.Dirs(here.target.ID()) {
			found = append(found, groupsBelow(dir)...)
		}
	}
	return found, nil
}

// groupsBelow lists the groups of a lab, without the sets of CPUs, which the
// lab keeps until it ends.
func groupsBelow(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), "cpus-") {
			found = append(found, "cgroup "+filepath.Join(dir, e.Name()))
		}
	}
	return found
}

// leaks returns an error that names what there is now and was not before.
func leaks(before []string) error {
	now, err := residue()
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(now, func(s string) bool { return slices.Contains(before, s) })
	// Goroutines of processes and of package testing may still be ending: only
	// a crowd is a leak.
	const crowd = 50
	if n := runtime.NumGoroutine(); n > crowd {
		left = append(left, fmt.Sprintf("%d goroutines", n))
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("the tests have left behind: %s", strings.Join(left, "; "))
}
