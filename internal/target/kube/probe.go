package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/podside"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// probe is the program that tells a pod's clocks and resources, for the life of
// the site.
type probe struct {
	running   *running
	mu        sync.Mutex
	ahead     time.Duration // of the pod's monotonic clock
	uncertain time.Duration
	wall      int64 // the pod's wall clock minus its monotonic one
}

// pings is how often clocks are compared; the fastest answer counts.
const pings = 9

// listen starts the probe, checks that the image has this very program, and
// compares the clocks.
func (p *pod) listen(ctx context.Context) error {
	log := sys.NewTail(sys.LogLimit)
	r, err := p.exec(ctx, log, program, "pod", "probe")
	if err != nil {
		return err
	}
	p.probe = &probe{running: r}
	if err = r.line(ctx, &p.hello); err != nil {
		return &model.TargetError{
			What: fmt.Sprintf("context %s: starting the program in pod %s", p.cluster.context, p.object),
			Why:  strings.TrimSpace(err.Error() + " " + log.Line()), Hint: "the image must be windtunnel's (make image); exec needs get and create on pods/exec",
			Lost: errors.Is(err, context.DeadlineExceeded),
		}
	}
	if p.hello.Version != p.site.target.Version {
		return &model.UnsupportedError{
			What:    fmt.Sprintf("windtunnel %s with the image %s", p.site.target.Version, p.site.target.kube.Image),
			Missing: "the same version in the image, which has " + p.hello.Version, Hint: "make image makes one; load or push it, and give --image",
		}
	}
	best := time.Duration(1<<63 - 1)
	for range pings {
		before := sys.Monotonic()
		reading, err := p.probe.read(ctx)
		if err != nil {
			return fmt.Errorf("comparing the clock of pod %s: %w", p.name, err)
		}
		after := sys.Monotonic()
		if took := time.Duration(after - before); took < best {
			best = took
			p.probe.ahead = time.Duration(reading.Monotonic - (before+after)/2)
			p.probe.uncertain, p.probe.wall = took/2, reading.Wall-reading.Monotonic
		}
	}
	return nil
}

// read asks for a reading.
func (b *probe) read(ctx context.Context) (r podside.Reading, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err = b.running.in.Write([]byte("\n")); err != nil {
		return r, b.running.why(err)
	}
	return r, b.running.line(ctx, &r)
}

// close ends the probe; its end of the stream closes with it.
func (b *probe) close(ctx context.Context) {
	const patience = time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = b.running.Stop(ctx) // never fails
}

// Clock tells how a pod's clock differs from this process's; see
// model.ClockedSite.
func (s *site) Clock(name string) (offset, uncertain time.Duration, err error) {
	p, err := s.pod(name)
	if err != nil {
		return 0, 0, err
	}
	return p.probe.ahead, p.probe.uncertain, nil
}

// SetReference makes a pod's clock the one of all readings.
func (s *site) SetReference(name string) { s.reference = name }

// referencePod is the pod whose clock readings have: any where none was chosen.
func (s *site) referencePod() *pod {
	if p := s.pods[s.reference]; p != nil {
		return p
	}
	for _, p := range s.pods {
		return p
	}
	return nil
}

// Samplers are one for our own containers, read from within, and one for those
// that others have put into the pods, read from the kubelets.
func (s *site) Samplers() []model.Sampler {
	return []model.Sampler{&inside{s}, &kubelets{site: s}}
}

// Unavailable says what cannot be sampled.
func (s *site) Unavailable() []string {
	var all []string
	for _, p := range s.pods {
		if p.hello.Missing != "" {
			all = append(all, fmt.Sprintf("CPU and memory of pod %s at the window's edges: %s; the kubelet's figures are used", p.name, p.hello.Missing))
		}
	}
	slices.Sort(all)
	all = append(all, "noise of the nodes (steal, run queue), and what is on the wire: not looked at on Kubernetes")
	if why := s.target.summaryMissing(); why != "" {
		all = append(all, why)
	}
	return all
}

// inside reads our own containers, all at once.
type inside struct{ site *site }

// Sample reads what each pod's container has used.
func (i *inside) Sample(ctx context.Context, dst []model.Reading) ([]model.Reading, error) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reference := i.site.referencePod()
	var mu sync.Mutex
	err := i.site.each(func(p *pod) error {
		if p.hello.Missing != "" {
			return nil
		}
		r, err := p.probe.read(ctx)
		if err != nil {
			return fmt.Errorf("sampling pod %s: %w", p.name, err)
		}
		at := r.Monotonic - p.probe.ahead.Nanoseconds() + reference.probe.ahead.Nanoseconds()
		mu.Lock()
		defer mu.Unlock()
		for _, m := range []model.Reading{
			{Metric: model.SampleCPU, Value: r.CPU},
			{Metric: model.SampleThrottled, Value: r.Throttled},
			{Metric: model.SampleThrottledPeriods, Value: r.Periods},
			{Metric: model.SampleMemory, Value: r.Memory},
		} {
			m.At, m.Subject = at, p.name+"/"+container(p.role)
			dst = append(dst, m)
		}
		return nil
	})
	return dst, err
}

// summary is what is read of a kubelet's summary API.
type summary struct {
	Pods []struct {
		PodRef struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"podRef"`
		Containers []containerStats `json:"containers"`
	} `json:"pods"`
}

type containerStats struct {
	Name string `json:"name"`
	CPU  struct {
		Time  time.Time `json:"time"`
		Nanos *uint64   `json:"usageCoreNanoSeconds"`
	} `json:"cpu"`
	Memory struct {
		Time  time.Time `json:"time"`
		Bytes *uint64   `json:"usageBytes"`
	} `json:"memory"`
}

// parseSummary reads a summary; unknown keys are others'.
func parseSummary(raw []byte) (s summary, err error) {
	if err = json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("reading a kubelet's summary: %w", err)
	}
	return s, nil
}
