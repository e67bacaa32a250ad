package cpu

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// Burn is a burning process: so many threads burn until its input ends. For
// each line that it is sent it says in a line how much they have used.
func Burn(threads string, in io.Reader, out io.Writer) error {
	n, err := strconv.Atoi(threads)
	if err != nil || n < 1 || n > maxThreads {
		return fmt.Errorf("burning CPU time: %q is no number of threads from 1 to %d", threads, maxThreads)
	}
	// Its own answers need a turn, too.
	runtime.GOMAXPROCS(n + 1)
	used := make([]atomic.Int64, n)
	failed := make(chan error, n)
	var over atomic.Bool
	defer over.Store(true)
	began := time.Now()
	for i := range used {
		go func() { failed <- thread(&used[i], &over) }()
	}
	answers := json.NewEncoder(out)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		select {
		case err := <-failed:
			return err
		default:
		}
		u := Usage{At: time.Since(began)}
		for i := range used {
			u.CPU += time.Duration(used[i].Load())
		}
		if err := answers.Encode(u); err != nil {
			return fmt.Errorf("saying how much CPU time was used: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("burning CPU time: %w", err)
	}
	return nil
}

// thread burns until it is over, and tells every few microseconds how much CPU
// time it has had.
func thread(used *atomic.Int64, over *atomic.Bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var sum uint64
	began, err := sys.ThreadCPU()
	for err == nil && !over.Load() {
		turn(&sum)
		var now time.Duration
		now, err = sys.ThreadCPU()
		used.Store(int64(now - began))
	}
	return err
}

// rounds are about 50 microseconds of turning.
const rounds = 100_000

// turn does nothing useful, in a way that no compiler leaves out.
//
//go:noinline
func turn(sum *uint64) {
	for range rounds {
		*sum = *sum*6364136223846793005 + 1 //nolint:mnd // Knuth's multiplier
	}
}
