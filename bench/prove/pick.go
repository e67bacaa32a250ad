package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/windtunnel/windtunnel/internal/model"
)

// pick is a layer that makes nothing: clients talk to one pod of the service,
// so that variants can differ in what is planted in that pod and in nothing else.
type pick struct {
	Pod string `json:"pod" jsonschema_description:"The pod that clients talk to."`

	addr netip.Addr
}

var (
	_ model.Layer   = (*pick)(nil)
	_ model.Fronter = (*pick)(nil)
)

func pickPlugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name: "pick", Summary: "clients talk to one pod of the service", Config: pick{},
		New: func(config json.RawMessage) (model.Layer, error) {
			p := &pick{}
			if err := model.ReadConfig(config, p); err != nil {
				return nil, err
			}
			if p.Pod == "" {
				return nil, &model.ConfigError{Key: "pod", Text: "names no pod"}
			}
			return p, nil
		},
	}
}

// Deploy finds the pod.
func (p *pick) Deploy(_ context.Context, s model.Site) (func(context.Context) error, error) {
	pod, err := s.Pod(p.Pod)
	if err != nil {
		return nil, fmt.Errorf("picking a pod: %w", err)
	}
	p.addr = pod.Addr()
	return func(context.Context) error { return nil }, nil
}

// Front is the pod's own address.
func (p *pick) Front(svc model.Service) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(p.addr, svc.TargetPort)}
}
