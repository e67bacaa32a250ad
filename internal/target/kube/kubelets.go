package kube

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/windtunnel/windtunnel/internal/model"
)

// kubelets reads the containers that others have put into the pods, and those
// of ours that cannot be read from within, from the kubelets' summary API,
// through the API server. A kubelet takes its readings every 10 to 15 s unless
// told otherwise, so they come late and are interpolated over more than the
// window.
type kubelets struct{ site *site }

var (
	_ model.Sampler     = (*kubelets)(nil)
	_ model.LateSampler = (*kubelets)(nil)
)

// Sample reads the summaries of all nodes that have such containers.
func (k *kubelets) Sample(ctx context.Context, dst []model.Reading) ([]model.Reading, error) {
	dst, _, err := k.read(ctx, dst)
	return dst, err
}

// Settle reads until every such container has a reading from after the moment.
func (k *kubelets) Settle(ctx context.Context, after int64, dst []model.Reading) ([]model.Reading, error) {
	const pause = time.Second
	for {
		readings, oldest, err := k.read(ctx, nil)
		dst = append(dst, readings...)
		if err != nil || len(readings) == 0 || oldest >= after || !wait(ctx, pause) {
			return dst, err
		}
	}
}

// read returns the readings and the time of the oldest.
func (k *kubelets) read(ctx context.Context, dst []model.Reading) (all []model.Reading, oldest int64, err error) {
	oldest = int64(1<<63 - 1)
	if k.site.target.summaryMissing() != "" || !k.needed(ctx) {
		return dst, oldest, nil
	}
	reference := k.site.referencePod()
	done := map[string]bool{}
	for _, p := range k.site.pods {
		key := p.cluster.context + "/" + p.node
		if done[key] {
			continue
		}
		done[key] = true
		s, err := p.cluster.summary(ctx, p.node)
		if err != nil {
			if apierrors.IsForbidden(err) {
				k.site.target.missSummary(err)
				return dst, oldest, nil
			}
			return dst, oldest, fmt.Errorf("context %s: reading the summary of node %s's kubelet: %w", p.cluster.context, p.node, err)
		}
		for _, r := range k.site.readings(p.cluster, s, reference.probe.wall) {
			dst = append(dst, r)
			oldest = min(oldest, r.At)
		}
	}
	return dst, oldest, nil
}

// needed says whether there is anything that cannot be read from within.
func (k *kubelets) needed(ctx context.Context) bool {
	s := k.site
	s.foreignOnce.Do(func() {
		objects, err := s.list(ctx)
		if err != nil {
			return
		}
		for _, p := range s.pods {
			o := objects[p.object]
			if o == nil {
				continue
			}
			s.foreign = s.foreign || len(o.Spec.Containers) > 1 || p.hello.Missing != ""
			for i := range o.Spec.InitContainers { // sidecars of Kubernetes' own kind
				s.foreign = s.foreign || o.Spec.InitContainers[i].RestartPolicy != nil
			}
		}
	})
	return s.foreign
}

// summary reads a kubelet's summary through the API server.
func (c *cluster) summary(ctx context.Context, node string) (summary, error) {
	raw, err := c.client.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("stats/summary").DoRaw(ctx)
	if err != nil {
		return summary{}, err
	}
	return parseSummary(raw)
}

// readings are those of a summary that cannot be had from within, on the
// reference's monotonic clock; wall is by how much its wall clock is ahead of
// that. Nodes' wall clocks are taken to agree, as NTP makes them.
func (s *site) readings(c *cluster, from summary, wall int64) []model.Reading {
	byObject := map[string]*pod{}
	for _, p := range s.pods {
		if p.cluster == c {
			byObject[p.object] = p
		}
	}
	var all []model.Reading
	for _, one := range from.Pods {
		p := byObject[one.PodRef.Name]
		if p == nil || one.PodRef.Namespace != c.namespace {
			continue
		}
		for _, stats := range one.Containers {
			all = append(all, p.readings(stats, wall)...)
		}
	}
	return all
}

// readings are those of one container of the pod, unless it is read from within.
func (p *pod) readings(stats containerStats, wall int64) []model.Reading {
	component := string(model.ComponentSidecar)
	if stats.Name == container(p.role) {
		if p.hello.Missing == "" {
			return nil
		}
		component = stats.Name
	}
	var all []model.Reading
	subject := p.name + "/" + component
	if stats.CPU.Nanos != nil {
		all = append(all, model.Reading{
			At: stats.CPU.Time.UnixNano() - wall, Subject: subject, Metric: model.SampleCPU,
			Value: float64(*stats.CPU.Nanos) / float64(time.Second),
		})
	}
	if stats.Memory.Bytes != nil {
		all = append(all, model.Reading{
			At: stats.Memory.Time.UnixNano() - wall, Subject: subject, Metric: model.SampleMemory, Value: float64(*stats.Memory.Bytes),
		})
	}
	return all
}

// trySummaries finds out, before the first trial, whether summaries can be read.
func (s *site) trySummaries(ctx context.Context) {
	for _, p := range s.pods {
		if _, err := p.cluster.summary(ctx, p.node); err != nil {
			s.target.missSummary(err)
			return
		}
	}
}

// missSummary keeps why the kubelets' summaries cannot be read.
func (t *Target) missSummary(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noSummary = "CPU and memory of containers that others put into the pods (sidecars): the kubelets' summary cannot be read (" +
		err.Error() + "); cpu.sidecar and memory.sidecar are missing, and the totals leave them out. deploy/rbac-nodes.yaml grants it"
}

func (t *Target) summaryMissing() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.noSummary
}
