package model

import (
	"context"
	"time"
)

// ComponentFault is the account of processes that a fault starts, e.g. to use
// up CPU time. No total holds it: it is not the system's.
const ComponentFault Component = "fault"

// LinkChanger is a site whose emulated links can be changed while packets cross
// them. Ends are those of a link of the topology, in either order.
type LinkChanger interface {
	// ChangeLink gives a link, both ways, the settings that change makes of its
	// own: delay, jitter, loss and rate may differ. restore may be called twice.
	ChangeLink(ctx context.Context, a, b string, change func(Link) Link) (restore func(context.Context) error, err error)
	// ProbeLink measures both directions as they are now, with so many datagrams
	// each, beside whatever else crosses them.
	ProbeLink(ctx context.Context, a, b string, count int) ([]LinkState, error)
}

// ComponentMortal is a site that can kill one component alone: all processes of
// that component in pods or on nodes of those names, or everywhere if there are
// none. It says where there were any. revive starts the same processes again
// and may be called twice.
type ComponentMortal interface {
	KillComponent(ctx context.Context, c Component, where []string) (struck []string, revive func(context.Context) error, err error)
}

// Drainer is a layer that holds the endpoints of services and can take pods out
// of them, as Kubernetes does with pods that are about to end: nothing new
// goes there, and what is there already stays. It says of how many endpoints it
// has taken any out. undrain puts them back and may be called twice.
type Drainer interface {
	Drain(ctx context.Context, s Site, pods []string) (endpoints int, undrain func(context.Context) error, err error)
}

// StackFault is a Fault that acts on layers. OnStack returns the one that acts
// on these, which are deployed, bottom up; kinds are their names.
type StackFault interface {
	OnStack(layers []Layer, kinds []string) Fault
}

// Impairment is what a server does to every request besides answering it.
type Impairment struct {
	Delay time.Duration `json:"delay_ns,omitempty"` // answers wait so long
	Fail  float64       `json:"fail,omitempty"`     // share of requests that are answered with status 503
	Burn  time.Duration `json:"burn_ns,omitempty"`  // CPU time that a request costs besides
}
