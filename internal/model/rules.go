package model

import (
	"context"
	"net/netip"
	"time"
)

// Rules say how requests for one service are to be treated, in the words of
// Kubernetes' HTTPRoute and of the meshes' policies. The zero value asks for
// nothing that a layer does not do by itself.
type Rules struct {
	Service string
	// Subsets are some of the service's pods, by name: its versions.
	Subsets map[string][]string
	// Routes are tried in order, and the first that matches holds. Without any,
	// requests go to all of the service's pods.
	Routes []Route
	// Limit is how many requests one client may have under way at a time; what is
	// more is refused at once. 0: no limit.
	Limit int
	// Eject takes pods out that fail.
	Eject *Eject
	// Allow are the roles of the pods whose requests are let in; none: all.
	// Deny are those that are refused whatever Allow says. A pod's role is what it
	// proves by its certificate.
	Allow, Deny []string
	// Egress bounds what pods may reach beside services; nil: everything.
	Egress *Egress
	// Ingress lets requests in from outside the mesh.
	Ingress *Ingress
	// Log asks for a line about every request on the proxies' output.
	Log bool
	// Spans is where each proxy tells, as Zipkin's JSON, what it has done for
	// every request; the zero value: nowhere.
	Spans netip.AddrPort
}

// Route is what happens to some of the requests.
type Route struct {
	PathPrefix string            // empty: any path
	Header     map[string]string // headers with exactly these values
	// To are the shares of subsets; none: all of the service's pods.
	To     []Weighted
	Mirror string        // subset that gets a copy of every request; its answers are dropped
	Delay  time.Duration // that every request is held up for
	Abort  int           // status that every request is answered with, without reaching a pod
	// Timeout bounds a request with all its tries; 0: no bound.
	Timeout time.Duration
	// Retries are how many more tries a request has that was answered with a
	// status of RetryOn; none: the layer's own.
	Retries int
	RetryOn []int
}

// Weighted is a subset and its share of the requests, in per cent.
type Weighted struct {
	Subset string
	Weight int
}

// Eject takes a pod out, for a time, after so many failures in a row.
type Eject struct {
	Failures int
	For      time.Duration
}

// Egress names all that may be reached outside; the rest is refused.
type Egress struct {
	Allowed []netip.AddrPort
}

// Ingress is an address on a node at which requests for a host come in.
type Ingress struct {
	Node string
	Port uint16
	Host string // requests for other hosts are refused
}

// Router is a layer that can be given rules while traffic passes.
type Router interface {
	// Routable says, before Deploy, that Apply is going to be called: what can be
	// changed live may have to be deployed in another way.
	Routable()
	// Apply returns when the rules hold. undo goes back to no rules; rules do not
	// add up. An UnsupportedError says which rule the layer does not know, or
	// cannot follow as it is configured.
	Apply(ctx context.Context, s Site, r Rules) (undo func(context.Context) error, err error)
}

// Rotator is a layer that can give its proxies new certificates while traffic
// passes. Rotate returns when they have been told.
type Rotator interface {
	Rotate(ctx context.Context, s Site) error
}

// Meter is a layer that counts requests. Requests are those that a service was
// sent since the layer was deployed, by the class of the answer's status: 2 for
// 200 to 299. Where a layer sees connections only, they are its class 0.
type Meter interface {
	Requests(ctx context.Context, s Site, service string) (map[int]uint64, error)
}

// Rewriter is a Running whose files can be replaced while it runs, at once and
// whole; {dir} in them is the process's folder.
type Rewriter interface {
	WriteFile(name string, data []byte) error
}
