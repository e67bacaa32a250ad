package network

import (
	"context"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Layer is a network layer: how it wires a site, and what it says of itself. It
// is deployed once.
type Layer struct {
	Name string
	// MTU of the pods, and what the layer's own headers take of the underlay's.
	MTU      MTU
	Overhead int
	// Headers says what they are, e.g. "20 bytes (IPv4)"; "" where there are none.
	Headers string
	// Wire changes the site; the pods have their MTU then. nil: there is nothing to do.
	Wire func(ctx context.Context, s *Site) error
	// DataPath reads back what moves the packets.
	DataPath func(s *Site) (string, error)
	// Routes is where nodes' routes to other nodes' pods come from.
	Routes string
	// Learnt reads back where they come from, if they are not the layer's own.
	Learnt func() (string, error)
	// More reads back what only this layer has to tell; nil: nothing.
	More func(s *Site) (model.Ledger, error)
	// Needs says what this host lacks for it, before anything is made; nil: nothing.
	Needs func() error
	// Form is what traffic between two nodes is carried in; see Claims.
	Form func(a, b *Node) string

	site *Site
	mtu  int
}

var (
	_ model.Layer    = (*Layer)(nil)
	_ model.Observer = (*Layer)(nil)
)

// Check says, before anything is made, whether the layer can work on this host.
func (l *Layer) Check(context.Context) error {
	if l.Needs == nil {
		return nil
	}
	return l.Needs()
}

// Deploy wires the site.
func (l *Layer) Deploy(ctx context.Context, s model.Site) (remove func(context.Context) error, err error) {
	site, err := Open(l.Name, s)
	if err != nil {
		return nil, err
	}
	l.site = site
	return site.Deployed(l.wire(ctx, site))
}

func (l *Layer) wire(ctx context.Context, s *Site) (err error) {
	if l.mtu, err = l.MTU.Of(l.Name, s.MTU, l.Overhead); err != nil {
		return err
	}
	if err := s.SetMTU(ctx, l.mtu); err != nil {
		return err
	}
	if l.Wire == nil {
		return nil
	}
	return l.Wire(ctx, s)
}

// Claims are the pods' MTU and, where it must show, the form on the wire.
func (l *Layer) Claims() []model.Claim {
	if l.site == nil {
		return nil
	}
	return l.site.Claims(l.mtu, l.Form)
}

// Observe reads the live configuration back.
func (l *Layer) Observe(context.Context, model.Site) (model.Ledger, error) {
	if l.site == nil {
		return nil, fmt.Errorf("%s is not deployed", l.Name)
	}
	path, err := l.DataPath(l.site)
	if err != nil {
		return nil, err
	}
	routes := l.Routes
	if l.Learnt != nil {
		if routes, err = l.Learnt(); err != nil {
			return nil, err
		}
	}
	ledger, err := l.site.Ledger(Observed{DataPath: path, Overhead: l.Headers, Routes: routes})
	if err != nil || l.More == nil {
		return ledger, err
	}
	more, err := l.More(l.site)
	return append(ledger, more...), err
}
