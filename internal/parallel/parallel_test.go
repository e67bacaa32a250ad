package parallel_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/windtunnel/windtunnel/internal/parallel"
)

// All are at work at the same time, or none of them would ever end.
func TestEachAtOnce(t *testing.T) {
	t.Parallel()
	const n = 50
	var here sync.WaitGroup
	here.Add(n)
	err := parallel.Each(make([]int, n), func(int) error {
		here.Done()
		here.Wait()
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// One that fails keeps none from its turn, and no error is lost.
func TestEveryError(t *testing.T) {
	t.Parallel()
	done := make([]bool, 5)
	err := parallel.Each([]int{0, 1, 2, 3, 4}, func(i int) error {
		done[i] = true
		if i%2 == 1 {
			return fmt.Errorf("no %d", i)
		}
		return nil
	})
	if err == nil || err.Error() != "no 1\nno 3" {
		t.Errorf("got %v", err)
	}
	for i, is := range done {
		if !is {
			t.Errorf("%d was left out", i)
		}
	}
	if err := parallel.Each(nil, func(int) error { return errors.New("of nothing") }); err != nil {
		t.Error(err)
	}
}

func TestCountIsLimited(t *testing.T) {
	t.Parallel()
	const limit = 3
	var now, calls atomic.Int32
	err := parallel.Count(100, limit, func(int) error {
		defer now.Add(-1)
		calls.Add(1)
		if at := now.Add(1); at > limit {
			return fmt.Errorf("%d at once", at)
		}
		return nil
	})
	if err != nil || calls.Load() != 100 {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
}
