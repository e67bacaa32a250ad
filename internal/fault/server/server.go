// Package server is the fault in which servers are there and answer, but late,
// with errors, or at a higher cost.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/impair"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Config is the fault's configuration.
type Config struct {
	model.Selection

	Delay string `json:"delay,omitempty" jsonschema_description:"Answers wait so long, e.g. 50ms; at most 10s."`
	Fail  string `json:"fail,omitempty" jsonschema_description:"Share of requests that are answered with status 503, e.g. 20%."`
	Burn  string `json:"burn,omitempty" jsonschema_description:"CPU time that every request costs besides, e.g. 1ms; at most 10s."`
}

// Fault impairs the servers of a selection.
type Fault struct {
	config Config
	to     model.Impairment
}

var (
	_ model.Fault         = Fault{}
	_ model.FaultObserver = Fault{}
)

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Fault] {
	return model.Plugin[model.Fault]{
		Name: "server", Summary: "Makes servers slow, failing or costly while they run; heal makes them well again.", Config: Config{}, New: New,
	}
}

// New reads the configuration.
func New(config json.RawMessage) (model.Fault, error) {
	var f Fault
	if err := model.ReadConfig(config, &f.config); err != nil {
		return nil, err
	}
	var errs [4]error
	f.to.Delay, errs[0] = span("delay", f.config.Delay)
	f.to.Fail, errs[1] = share("fail", f.config.Fail)
	f.to.Burn, errs[2] = span("burn", f.config.Burn)
	errs[3] = f.config.Check()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if f.to == (model.Impairment{}) {
		return nil, errors.New("does nothing to servers: give delay, fail or burn")
	}
	return f, nil
}

// Inject impairs. A server that cannot be impaired leaves none impaired.
func (f Fault) Inject(ctx context.Context, s model.Site) (heal func(context.Context) error, err error) {
	pods, err := f.pods(s)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	before := map[int]model.Impairment{}
	heal = func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		var errs []error
		for i, was := range before {
			_, err := impair.Set(ctx, pods[i], was)
			errs = append(errs, err)
		}
		clear(before)
		return errors.Join(errs...)
	}
	for i, pod := range pods {
		was, err := impair.Set(ctx, pod, f.to)
		if err != nil {
			return nil, errors.Join(err, heal(context.WithoutCancel(ctx)))
		}
		mu.Lock()
		before[i] = was
		mu.Unlock()
	}
	return heal, nil
}

func (f Fault) pods(s model.Site) ([]model.Namespace, error) {
	names, err := f.config.PodsOf(s.Topology())
	if err != nil {
		return nil, err
	}
	var all []model.Namespace
	for _, name := range names {
		pod, err := s.Pod(name)
		if err != nil {
			return nil, err
		}
		ns, ok := pod.(model.Namespace)
		if !ok {
			return nil, &model.UnsupportedError{What: "the fault server", Missing: "this target's pods' servers cannot be reached from here"}
		}
		all = append(all, ns)
	}
	return all, nil
}

// Observe asks every server some requests at once, in its own pod, and says how
// they were answered.
func (f Fault) Observe(ctx context.Context, s model.Site) (model.Ledger, error) {
	pods, err := f.pods(s)
	if err != nil {
		return nil, err
	}
	var facts model.Ledger
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1}) // which no sidecar takes away
	for _, ns := range pods {
		i := slices.IndexFunc(s.Topology().Services, func(svc model.Service) bool { return slices.Contains(svc.Pods, ns.Name()) })
		if i < 0 {
			continue // nothing that could be asked
		}
		took, failed := ask(ctx, ns, netip.AddrPortFrom(loopback, s.Topology().Services[i].TargetPort))
		facts = append(facts, model.Fact{
			Layer: "fault", Key: "server in " + ns.Name(), Source: model.SourceAnswer,
			Value: fmt.Sprintf("asked %s; observed p50 %s, %d of %d failed", f, took.Round(time.Millisecond/100), failed, questions), //nolint:mnd // 10 us
		})
	}
	return facts, nil
}

// String is what the fault does, in words.
func (f Fault) String() string {
	var parts []string
	for _, p := range []struct {
		key, text string
	}{{"delay", f.config.Delay}, {"fail", f.config.Fail}, {"burn", f.config.Burn}} {
		if p.text != "" {
			parts = append(parts, p.key+" "+p.text)
		}
	}
	return strings.Join(parts, ", ")
}

const (
	questions = 10
	patience  = 12 * time.Second // longer than any delay
)

// ask is the median time of answers, and how many were no success.
func ask(ctx context.Context, in model.Namespace, to netip.AddrPort) (median time.Duration, failed int) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		err = in.InNetwork(func() (err error) {
			c, err = (&net.Dialer{}).DialContext(ctx, network, addr)
			return err
		})
		return c, err
	}}}
	var took [questions]time.Duration
	var good [questions]bool
	var wg sync.WaitGroup
	for i := range questions {
		wg.Go(func() {
			began := time.Now()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+to.String()+"/", http.NoBody)
			if err != nil {
				return
			}
			answer, err := client.Do(req)
			if err != nil {
				return
			}
			_, err = io.Copy(io.Discard, answer.Body)
			good[i] = errors.Join(err, answer.Body.Close()) == nil && answer.StatusCode < http.StatusBadRequest
			took[i] = time.Since(began)
		})
	}
	wg.Wait()
	for _, ok := range good {
		if !ok {
			failed++
		}
	}
	slices.Sort(took[:])
	return took[questions/2], failed
}

const (
	longest = 10 * time.Second
	percent = 100
)

func span(key, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > longest {
		return 0, &model.ConfigError{Key: key, Text: fmt.Sprintf("is %q; it must be a time such as 50ms, at most %s", text, longest)}
	}
	return d, nil
}

func share(key, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, ok := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(v >= 0 && v <= percent) {
		return 0, &model.ConfigError{Key: key, Text: fmt.Sprintf("is %q; it must be a share such as 20%%", text)}
	}
	return v / percent, nil
}
