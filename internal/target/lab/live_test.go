package lab_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Who asks sees the devices of the site that there is, and none when it is gone,
// however often it is asked while it goes.
func TestLive(t *testing.T) { //nolint:paralleltest // which site was made last is the lab's, not the test's
	target := labtest.Need(t)
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := target.ServeLive(ctx, "/runs/this", func() string { return "trial 3" }); err != nil {
			t.Error(err)
		}
	})
	defer serving.Wait()
	defer stop()
	site := labtest.Site(t, linked(model.Link{Delay: time.Millisecond}))
	counted := states(t, site)[0].Means != "netem" // whose links are not
	var gone sync.WaitGroup
	seen, ended := 0, false
	watch := func() error {
		return target.Watch(ctx, "/runs/this", time.Millisecond, func(now model.Live) bool {
			if now.Run != "/runs/this" || now.Doing != "trial 3" {
				t.Errorf("%+v", now)
				return false
			}
			if now.Site == "" {
				ended = true
				return false
			}
			has := func(subject string) bool {
				return slices.ContainsFunc(now.Readings, func(r model.Reading) bool { return r.Subject == subject })
			}
			if !has(model.DeviceSubject(model.PlacePod, "client-0", "eth0")) || counted && !has(model.SubjectLink+"node-0>node-1") || len(now.Topology.Nodes()) != 2 {
				t.Errorf("%+v", now)
				return false
			}
			const enough = 5
			if seen++; seen == enough { // from now on beside the asking
				gone.Go(func() {
					if err := site.Close(context.WithoutCancel(ctx)); err != nil {
						t.Error(err)
					}
				})
			}
			return true
		})
	}
	labtest.Eventually(t, watch) // it takes a moment until somebody listens
	gone.Wait()
	if !ended {
		t.Errorf("after %d looks the site was not seen to end", seen)
	}
	if err := target.Watch(ctx, "/runs/other", time.Millisecond, func(model.Live) bool { return false }); err == nil || !strings.Contains(err.Error(), "/runs/this") {
		t.Errorf("another run: %v", err)
	}
}
