package load_test

import (
	"errors"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestFinishKeepsWhatWasMeasured(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	to := serve(t, says(okAnswer))
	for _, l := range []model.Load{open(500, 4, time.Hour), closed(4, time.Hour)} {
		finish := make(chan struct{})
		j := job(l, to)
		j.Workers, j.Finish = 2, finish
		j.OnWindow = func(model.Window) { time.AfterFunc(300*time.Millisecond, func() { close(finish) }) }
		r, window, err := load.Run(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		if r.Elapsed < 200*time.Millisecond || r.Elapsed > 5*time.Second || window.Duration() != r.Elapsed {
			t.Errorf("%s: elapsed %s, window %s", l.Arrival, r.Elapsed, window.Duration())
		}
		balance(t, r, l.Arrival == model.ArrivalOpen)
	}
}

func TestFinishWhileWarmingUp(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	finish := make(chan struct{})
	close(finish)
	j := job(closed(1, time.Second), serve(t, says(okAnswer)))
	j.Warmup, j.Finish = time.Hour, finish
	if _, _, err := load.Run(t.Context(), j); !errors.Is(err, load.ErrWarmup) {
		t.Errorf("error %v, want %v", err, load.ErrWarmup)
	}
}
