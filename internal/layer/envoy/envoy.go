// Package envoy is a service mesh's data plane: a real Envoy as a sidecar in
// every pod of the client and of the services, with transparent redirection
// and mutual TLS, configured as Istio configures its sidecars. It is Envoy,
// not Istio: there is no control plane.
package envoy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

// Name is the layer's name in studies.
const Name = "envoy"

// MTLS says what the sidecars demand of each other.
type MTLS string

// The modes, with Istio's meaning.
const (
	Strict     MTLS = "strict"     // plaintext is refused
	Permissive MTLS = "permissive" // mutual TLS between sidecars, plaintext accepted
	Disabled   MTLS = "disabled"   // plaintext
)

// Config is the layer's configuration in a study.
type Config struct {
	// MTLS is strict, permissive or disabled.
	MTLS MTLS `json:"mtls,omitempty" jsonschema:"enum=strict,enum=permissive,enum=disabled,default=strict"`
	// Concurrency is the number of worker threads; Istio's default is 2.
	Concurrency int `json:"concurrency,omitempty" jsonschema:"minimum=1,maximum=64,default=2"`
	// Path is the Envoy program, where it is not to be looked for.
	Path string `json:"path,omitempty"`
	// CPU limits each sidecar, in cores; 0 is no limit.
	CPU float64 `json:"cpu,omitempty" jsonschema:"minimum=0"`
	// Memory limits each sidecar, in bytes; 0 is no limit.
	Memory uint64 `json:"memory_bytes,omitempty"`
}

func parse(raw json.RawMessage) (Config, error) {
	c := Config{MTLS: Strict, Concurrency: 2}
	if len(raw) == 0 {
		return c, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("envoy's configuration: %w; known keys are mtls, concurrency, path, cpu, memory_bytes", err)
	}
	var errs []error
	if c.MTLS != Strict && c.MTLS != Permissive && c.MTLS != Disabled {
		errs = append(errs, fmt.Errorf("envoy's mtls is %q; it can be strict, permissive or disabled", c.MTLS))
	}
	if c.Concurrency < 1 || c.Concurrency > 64 {
		errs = append(errs, fmt.Errorf("envoy's concurrency is %d; it can be 1 to 64", c.Concurrency))
	}
	if c.CPU < 0 {
		errs = append(errs, fmt.Errorf("envoy's cpu is %g; it cannot be negative", c.CPU))
	}
	return c, errors.Join(errs...)
}

// Plugin is the catalog entry. find looks for the Envoy program.
func Plugin(find func(explicit string) (string, error)) model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "a sidecar at each end: real Envoy, configured as Istio does, with transparent redirect and mTLS",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c, err := parse(raw)
			return &Layer{config: c, find: find}, err
		},
	}
}

// Layer is one deployment of sidecars.
type Layer struct {
	config   Config
	find     func(explicit string) (string, error)
	sidecars []*sidecar
	onWire   bool // whatever the client sends to a service leaves its node
}

var (
	_ model.Layer    = (*Layer)(nil)
	_ model.Observer = (*Layer)(nil)
)

// sidecar is an Envoy in one pod.
type sidecar struct {
	pod     model.Pod
	ns      model.Namespace
	role    string
	process model.Running
}

// The sidecar's ports and mark, as Istio has them.
const (
	portAdmin    = 15000
	portOutbound = 15001
	portInbound  = 15006
	mark         = 1337 // on Envoy's own packets, so that they are not redirected again
	table        = "windtunnel-sidecar"
	startTimeout = 15 * time.Second
)

// Check says whether there is an Envoy to run.
func (l *Layer) Check(context.Context) error {
	_, err := l.find(l.config.Path)
	return err
}

// Deploy starts all sidecars at once, waits until each is live, and only then
// redirects traffic through them.
func (l *Layer) Deploy(ctx context.Context, s model.Site) (func(context.Context) error, error) {
	program, err := l.find(l.config.Path)
	if err != nil {
		return nil, err
	}
	mesh, err := newMesh(s, l.config)
	if err != nil {
		return nil, err
	}
	l.sidecars, l.onWire = mesh.sidecars, apart(s.Topology())
	errs := make([]error, len(l.sidecars))
	var wg sync.WaitGroup
	for i, sc := range l.sidecars {
		wg.Go(func() { errs[i] = l.start(ctx, mesh, sc, program) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, l.remove(context.WithoutCancel(ctx)))
	}
	for _, sc := range l.sidecars {
		if err := sc.ns.InNetwork(func() error { return nft.Apply(redirect()) }); err != nil {
			return nil, errors.Join(fmt.Errorf("redirecting %s: %w", sc.pod.Name(), err), l.remove(context.WithoutCancel(ctx)))
		}
	}
	return l.remove, nil
}

func (l *Layer) start(ctx context.Context, m *mesh, sc *sidecar, program string) error {
	files, err := m.files(sc)
	if err != nil {
		return err
	}
	sc.process, err = sc.pod.Start(ctx, model.Process{
		Name: Name, Component: model.ComponentSidecar, Files: files,
		Command: []string{program, "-c", "{dir}/envoy.json", "--concurrency", strconv.Itoa(l.config.Concurrency), "--disable-hot-restart", "-l", "warning"},
		Limits:  model.Limits{CPU: l.config.CPU, Memory: l.config.Memory},
	})
	if err != nil {
		return err
	}
	return sc.live(ctx)
}

// live waits until Envoy says that it is ready.
func (sc *sidecar) live(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		body, err := sc.admin(ctx, "/ready")
		if err == nil && bytes.HasPrefix(body, []byte("LIVE")) {
			return nil
		}
		select {
		case <-sc.process.Done():
			return fmt.Errorf("the Envoy in %s ended while starting: %w (its log is in the run folder)", sc.pod.Name(), sc.process.Err())
		case <-ctx.Done():
			return fmt.Errorf("the Envoy in %s was not ready within %s (its log is in the run folder): %w", sc.pod.Name(), startTimeout, errors.Join(err, ctx.Err()))
		case <-tick.C:
		}
	}
}

// redirect sends all TCP of a pod through its sidecar, except Envoy's own and
// what stays on loopback.
func redirect() nft.Table {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	return nft.Table{Name: table, Chains: []nft.Chain{
		{Name: "outbound", Hook: nft.HookOutput, Rules: []nft.Rule{
			{If: nft.Match{Mark: mark}, Do: nft.Accept(), Comment: "Envoy's own"},
			{If: nft.Match{Destination: loopback}, Do: nft.Accept(), Comment: "loopback"},
			{If: nft.Match{TCP: true}, Count: true, Do: nft.Redirect(portOutbound), Comment: "to virtualOutbound"},
		}},
		{Name: "inbound", Hook: nft.HookPrerouting, Rules: []nft.Rule{
			{If: nft.Match{In: "lo"}, Do: nft.Accept(), Comment: "loopback"},
			{If: nft.Match{TCP: true}, Count: true, Do: nft.Redirect(portInbound), Comment: "to virtualInbound"},
		}},
	}}
}

func (l *Layer) remove(ctx context.Context) error {
	errs := make([]error, len(l.sidecars))
	var wg sync.WaitGroup
	for i, sc := range l.sidecars {
		wg.Go(func() {
			errs[i] = sc.ns.InNetwork(func() error { return nft.Delete(table) })
			if sc.process != nil {
				errs[i] = errors.Join(errs[i], sc.process.Stop(ctx))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
