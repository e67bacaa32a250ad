// Package kube is the target that makes a topology real on Kubernetes: its pods
// are pods of the project's image, placed as the topology says, whose containers
// idle; processes are started in them by exec, through the API server, and so
// are commands and results. Load goes from pod to pod.
//
// Everything that a run makes is labelled, and owned by one ConfigMap, in a
// namespace of the run's own or one that the user names. Close removes it;
// Sweep removes what killed runs have left.
package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/model"
)

// DefaultImage is what `make image` makes.
const DefaultImage = "localhost/windtunnel:latest"

// Bounds, generous, so that only what hangs meets them.
const (
	openPatience      = 5 * time.Minute // the first pods pull their image
	chartPatience     = 5 * time.Minute // those of a mesh, too
	provisionPatience = 3 * time.Minute // an API server that restarts comes back in that time
	removePatience    = time.Minute
	serverPatience    = 2 * time.Minute
	connectPatience   = 15 * time.Second
	requestTimeout    = 10 * time.Second
	renewEvery        = 10 * time.Second
)

// Options are what the target is told besides the study.
type Options struct {
	Kubeconfig string // path; empty: $KUBECONFIG, then ~/.kube/config
	Version    string // of this program; the image must have the same
	Run        string // the run's name, for labels
	// Placement is that of an earlier session: real nodes by node of the topology.
	Placement map[string]string
	// Meshes are those of all variants.
	Meshes []model.Mesh
	// Charts installs charts.
	Charts Charts
	// Faults says that pods will be killed: servers then have a readiness probe,
	// so that the clusters notice.
	Faults bool
}

// Target makes sites on clusters. Make one with New, and Open before use.
type Target struct {
	Options
	kube     model.Kube
	id       string
	clusters []*cluster

	mu        sync.Mutex
	placement map[string]string
	serial    int
	stray     bool   // a site could not be removed
	noSummary string // why the kubelets' summaries cannot be read
	host      model.Host
	stopRenew context.CancelFunc
	renewed   sync.WaitGroup
}

var (
	_ model.Target        = (*Target)(nil)
	_ model.PatientTarget = (*Target)(nil)
	_ model.MeshTarget    = (*Target)(nil)
)

// New makes the target of a study's clusters.
func New(k model.Kube, o Options) *Target {
	if k.Image == "" {
		k.Image = DefaultImage
	}
	t := &Target{Options: o, kube: k, placement: map[string]string{}}
	maps.Copy(t.placement, o.Placement)
	maps.Copy(t.placement, k.Nodes)
	t.id = strconv.FormatInt(time.Now().UnixNano()/int64(time.Millisecond), 36) + strconv.FormatInt(int64(os.Getpid()), 36)
	return t
}

// Open connects, makes the run's namespaces, and makes one site on trial, so
// that what cannot work is said before the first trial: permissions, quotas,
// the image, the nodes. The nodes that the scheduler chooses stay the run's.
func (t *Target) Open(ctx context.Context, topology model.Topology) (err error) {
	ctx, cancel := context.WithTimeout(ctx, openPatience+time.Duration(t.charts())*chartPatience)
	defer cancel()
	if t.clusters, err = connectAll(ctx, t.Kubeconfig, t.kube.Contexts); err != nil {
		return err
	}
	if _, err = assign(topology, t.clusters); err != nil {
		return err
	}
	if _, err = t.sweep(ctx, false); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close(context.WithoutCancel(ctx)))
		}
	}()
	for _, c := range t.clusters {
		if err = t.claim(ctx, c); err != nil {
			return err
		}
	}
	t.renew(context.WithoutCancel(ctx))
	if err = t.install(ctx); err != nil {
		return err
	}
	site, err := t.provision(ctx, topology, model.Surroundings{})
	if err != nil {
		return err
	}
	t.host = site.describeHost(ctx)
	site.trySummaries(ctx)
	if err = site.Close(ctx); err != nil {
		return err
	}
	return t.tryMeshes(ctx, topology)
}

// Host is what the run's nodes are like, as far as they may be looked at.
func (t *Target) Host() model.Host { return t.host }

// Patience is how long sites may take.
func (t *Target) Patience() (provision, remove time.Duration) {
	return provisionPatience, removePatience
}

// Provision makes a site; see model.Target.
func (t *Target) Provision(ctx context.Context, topology model.Topology) (model.Site, error) {
	return t.ProvisionIn(ctx, topology, model.Surroundings{})
}

// ProvisionIn makes a site whose pods are in meshes; see model.MeshTarget.
func (t *Target) ProvisionIn(ctx context.Context, topology model.Topology, around model.Surroundings) (model.Site, error) {
	s, err := t.provision(ctx, topology, around)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close removes everything that the run has made.
func (t *Target) Close(ctx context.Context) error {
	if t.stopRenew != nil {
		t.stopRenew()
		t.renewed.Wait()
	}
	ctx, cancel := context.WithTimeout(ctx, removePatience+serverPatience+time.Duration(t.charts())*chartPatience)
	defer cancel()
	var errs []error
	for _, c := range t.clusters {
		if c.owner != "" {
			errs = append(errs, t.uninstall(ctx, c), c.release(ctx, t.id))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\nwindtunnel clean --target kube removes what is left", err)
	}
	return nil
}

// Placement is the real nodes by node of the topology, so far.
func (t *Target) Placement() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.placement)
}

// renew says, as long as the run lives, that it does.
func (t *Target) renew(ctx context.Context) {
	ctx, t.stopRenew = context.WithCancel(ctx)
	t.renewed.Go(func() {
		tick := time.NewTicker(renewEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for _, c := range t.clusters {
				c.renew(ctx, t.id) // if it fails, the next may not
			}
		}
	})
}

// next is the number of the next site.
func (t *Target) next() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serial++
	return t.serial
}

// describeHost is what the generator's node is like.
func (s *site) describeHost(ctx context.Context) model.Host {
	h := model.Host{OS: "unknown", Kernel: "unknown", Arch: runtime.GOARCH, CPU: "unknown", Cgroups: "of the kubelet"}
	for _, n := range s.topology.Nodes() {
		for _, spec := range n.Pods {
			p := s.pods[spec.Name]
			if spec.Role != model.RoleClient && h.Cores > 0 {
				continue
			}
			h.Kernel, h.Cores = p.hello.Kernel, p.hello.CPUs
			node, err := p.cluster.node(ctx, p.node)
			if err != nil {
				h.Notes = []string{"the node " + p.node + " may not be looked at: " + err.Error()}
				continue
			}
			info := node.Status.NodeInfo
			h.OS, h.Arch, h.Kernel = info.OSImage, info.Architecture, info.KernelVersion
			h.MemoryBytes = uint64(max(0, node.Status.Capacity.Memory().Value()))
		}
	}
	h.Notes = append(h.Notes,
		"Kubernetes: the generator has no CPU of its own; whatever else runs on the nodes shares them",
		fmt.Sprintf("the figures of the host are those of the generator's node; %d pods on %d nodes", len(s.pods), len(s.topology.Nodes())))
	return h
}

// uid is an owner's.
type uid = types.UID
