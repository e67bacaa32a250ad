// Package proc finds and ends a lab's processes.
package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/network"
)

// ID is a process that cannot be taken for a later one with the same number.
type ID struct {
	PID   int
	Start string // clock ticks since the boot
}

// Of identifies a running process; a zombie is none.
func Of(pid int) (ID, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ID{}, false
	}
	state, start, ok := parseStat(string(stat))
	return ID{PID: pid, Start: start}, ok && state != "Z" && state != "X"
}

// parseStat reads the state and the start time. The command's name is in
// parentheses and may hold spaces and parentheses itself.
func parseStat(stat string) (state, start string, ok bool) {
	_, rest, found := cutLast(stat, ") ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return "", "", false
	}
	return fields[0], fields[19], true
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Alive says whether it still runs.
func (id ID) Alive() bool {
	now, ok := Of(id.PID)
	return ok && now == id
}

// Write writes it to a file.
func (id ID) Write(path string) error {
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d %s\n", id.PID, id.Start), 0o600); err != nil {
		return fmt.Errorf("writing the process %d to a file: %w", id.PID, err)
	}
	return nil
}

// Read reads what Write wrote; without a file there is no process.
func Read(path string) (ID, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ID{}, nil
	}
	if err != nil {
		return ID{}, fmt.Errorf("reading a process: %w", err)
	}
	return parse(string(data)), nil
}

// parse reads a process; what a crash has left half written is none.
func parse(text string) ID {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return ID{}
	}
	pid, err := strconv.Atoi(fields[0])
	if err != nil || pid < 2 {
		return ID{}
	}
	return ID{PID: pid, Start: fields[1]}
}

// list lists the running processes that a test accepts.
func list(accept func(pid int) bool) ([]ID, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []ID
	for _, entry := range entries {
		pid, other := strconv.Atoi(entry.Name())
		if other != nil || !accept(pid) {
			continue
		}
		if id, ok := Of(pid); ok {
			found = append(found, id)
		}
	}
	return found, nil
}

// InLab lists the processes in its control groups and in its named network
// namespaces: a unit's first process is in the namespace before it is in its group.
func InLab(groups []int, names []string) ([]ID, error) {
	var ids []uint64
	for _, name := range names {
		if id := network.IDOf(name); id != 0 {
			ids = append(ids, id)
		}
	}
	return list(func(pid int) bool {
		return slices.Contains(groups, pid) || slices.Contains(ids, network.IDOfProcess(pid))
	})
}

// Inside lists the processes in the PID namespace of a unit's first process
// that were started by a name; all of them without one.
func Inside(first ID, name string) ([]ID, error) {
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", first.PID))
	if err != nil {
		return nil, fmt.Errorf("looking at the process %d: %w", first.PID, err)
	}
	return list(func(pid int) bool {
		other, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		return err == nil && other == namespace && (name == "" || calledBy(pid) == name)
	})
}

func calledBy(pid int) string {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(string(line), "\x00")
	return filepath.Base(name)
}

// Signal sends a signal to each that still runs.
func Signal(ids []ID, signal syscall.Signal) error {
	var problems []error
	for _, id := range ids {
		if !id.Alive() {
			continue
		}
		if err := syscall.Kill(id.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			problems = append(problems, fmt.Errorf("sending %s to the process %d: %w", signal, id.PID, err))
		}
	}
	return errors.Join(problems...)
}

// Kill kills processes and waits for their end.
func Kill(ctx context.Context, ids []ID) error {
	if err := Signal(ids, syscall.SIGKILL); err != nil {
		return err
	}
	for {
		ids = slices.DeleteFunc(slices.Clone(ids), func(id ID) bool { return !id.Alive() })
		if len(ids) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of the processes %v: %w", ids, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
