package sys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// suspendLimit is how long threads may take to stop: one that waits for a disk
// cannot before it has it.
const suspendLimit = 10 * time.Second

// Suspend stops the process and its group without ending them, until SIGCONT.
func (p *Process) Suspend(ctx context.Context) error { return SuspendGroup(ctx, p.PID()) }

// SignalGroup sends a signal to a process that Start has started, maybe in
// another program, and to its children. One that has ended is no error.
func SignalGroup(group int, s syscall.Signal) error {
	if err := unix.Kill(-group, s); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", group, err)
	}
	return nil
}

// SuspendGroup stops such a process. It returns when all threads have stopped:
// SIGSTOP is only noted by the call that sends it, and on a busy host a thread
// goes on until it hears of it.
func SuspendGroup(ctx context.Context, group int) error {
	if err := SignalGroup(group, syscall.SIGSTOP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, suspendLimit)
	defer cancel()
	for {
		goesOn, err := runningIn(group)
		if err != nil || goesOn == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until process %d has stopped: thread %s goes on: %w", group, goesOn, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// runningIn names a thread of a process group that has not stopped; "": none.
func runningIn(group int) (thread string, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return "", fmt.Errorf("listing processes: %w", err)
	}
	for _, stat := range stats {
		if _, of, ok := readStat(stat); !ok || of != group {
			continue
		}
		threads, err := filepath.Glob(filepath.Join(filepath.Dir(stat), "task", "[0-9]*", "stat"))
		if err != nil {
			return "", fmt.Errorf("listing threads: %w", err)
		}
		for _, t := range threads {
			if state, _, ok := readStat(t); ok && !stopped(state) {
				return fmt.Sprintf("%s (state %c)", filepath.Base(filepath.Dir(t)), state), nil
			}
		}
	}
	return "", nil
}

// stopped says whether a thread in a state, as proc(5) names them, does nothing
// more: stopped, traced, or dead.
func stopped(state byte) bool { return bytes.IndexByte([]byte("TtZXx"), state) >= 0 }

// readStat is a thread's state and process group; not ok: it has ended.
func readStat(path string) (state byte, group int, ok bool) {
	raw, err := os.ReadFile(path) //nolint:gosec // G304: below /proc
	if err != nil {
		return 0, 0, false
	}
	return parseStat(raw)
}

// parseStat reads what follows the name, which may hold anything.
func parseStat(raw []byte) (state byte, group int, ok bool) {
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	const inState, inGroup = 0, 2
	if len(fields) <= inGroup || len(fields[inState]) != 1 {
		return 0, 0, false
	}
	group, err := strconv.Atoi(string(fields[inGroup]))
	return fields[inState][0], group, err == nil
}
