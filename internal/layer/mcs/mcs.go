// Package mcs has the layers that make one address of a service with pods in
// several real clusters, by Kubernetes' own means: the multi-cluster services
// API (mcs), GKE's form of it and its multi-cluster ingress (gke-mcs), and
// Services without a selector (endpointslices).
package mcs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/windtunnel/windtunnel/internal/across"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Config is the layers' configuration in a study.
type Config struct{}

// GKEConfig is that of gke-mcs.
type GKEConfig struct {
	By string `json:"by,omitempty" jsonschema:"enum=service,enum=ingress,default=service" jsonschema_description:"service: ServiceExport and ServiceImport, from pod to pod. ingress: MultiClusterService and MultiClusterIngress, through GKE's external load balancer; the clients' context must be the fleet's config cluster."`
}

// Layer is one way across clusters.
type Layer struct{ way across.Way }

var (
	_ model.Layer    = Layer{}
	_ model.Fronter  = Layer{}
	_ model.Observer = Layer{}
	_ model.Portable = Layer{}
)

// Plugins are the catalog entries.
func Plugins() []model.Plugin[model.Layer] {
	plain := func(way across.Way, summary string) model.Plugin[model.Layer] {
		return model.Plugin[model.Layer]{
			Name: way.Name, Summary: summary, Config: Config{},
			New: func(raw json.RawMessage) (model.Layer, error) {
				return Layer{way}, model.ReadConfig(raw, &Config{})
			},
		}
	}
	return []model.Plugin[model.Layer]{
		plain(across.Slices(), "target kube: a Service over pods of several clusters, by EndpointSlices of ours"),
		plain(across.Exported(), "target kube: the multi-cluster services API (ServiceExport, ServiceImport) that the clusters have"),
		{
			Name: across.ExportedGKE().Name, Summary: "target kube: GKE's multi-cluster Services, or its multi-cluster Ingress", Config: GKEConfig{},
			New: func(raw json.RawMessage) (model.Layer, error) {
				c := GKEConfig{}
				if err := model.ReadConfig(raw, &c); err != nil {
					return nil, err
				}
				switch c.By {
				case "", "service":
					return Layer{across.ExportedGKE()}, nil
				case "ingress":
					return Layer{across.Ingress()}, nil
				}
				return nil, &model.ConfigError{Key: "by", Text: fmt.Sprintf("is %q; it can be service or ingress", c.By)}
			},
		},
	}
}

// CheckTarget is nil for kube only.
func (l Layer) CheckTarget(target string) error { return across.CheckTarget(l.way.Name, target) }

// Check is for the lab, which does not have these layers.
func (l Layer) Check(context.Context) error { return across.OnlyOnKube(l.way.Name) }

// Front is the address that the clusters gave.
func (Layer) Front(svc model.Service) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(svc.VIP, svc.Port)}
}

// Deploy makes the objects in all clusters and waits for the address.
func (l Layer) Deploy(ctx context.Context, s model.Site) (func(context.Context) error, error) {
	return l.way.Deploy(ctx, s)
}

// Claims are none: that the address answers is what the ready gate shows.
func (Layer) Claims() []model.Claim { return nil }

// Observe reads the address back.
func (l Layer) Observe(ctx context.Context, s model.Site) (model.Ledger, error) {
	return l.way.Observe(ctx, s)
}
