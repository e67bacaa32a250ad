package model

import (
	"context"
	"io"
	"net/netip"
)

// Target makes sites. Provision returns when every pod of the topology exists
// and can be reached at network level by every other; nothing runs in them yet.
// A site that could not be made whole leaves nothing behind.
type Target interface {
	Provision(ctx context.Context, t Topology) (Site, error)
}

// Enterer is a target that can only work from inside a place of its own (the
// lab: its own namespaces). Enter is called once, before anything else. It
// returns inside=true where the caller already is in that place and should go
// on; otherwise the whole command has been run inside, and code is its exit code.
type Enterer interface {
	Enter(ctx context.Context) (inside bool, code int, err error)
}

// Site is a topology that a target has made real. It is safe for use by one
// goroutine at a time. Close ends every process, removes everything that
// Provision and the pods' methods have made, and may be called twice.
type Site interface {
	Topology() Topology
	Pod(name string) (Pod, error)
	Service(name string) (Service, error)
	Close(ctx context.Context) error
}

// Pod is a live pod: an address and room for processes.
type Pod interface {
	Name() string
	Addr() netip.Addr
	// Start runs a process in the pod. It returns when the process exists, not
	// when it is ready; the context bounds Start only, not the process.
	Start(ctx context.Context, p Process) (Running, error)
}

// Component says to whose account a process goes.
type Component string

// The components.
const (
	ComponentApp       Component = "app"
	ComponentSidecar   Component = "sidecar"
	ComponentGateway   Component = "gateway"
	ComponentGenerator Component = "generator"
)

// Process is a program to run in a pod.
type Process struct {
	// Name tells the process from the pod's others; it names its log.
	Name      string
	Component Component
	Command   []string
	Env       []string // added to an environment with PATH only
	// Files are written to a private folder of the process before it starts
	// (mode 0600) and removed with it; {dir} in Command, Env and the files
	// themselves is that folder.
	Files map[string][]byte
	// Piped connects the process's standard input and output to
	// Running.Stream instead of sending output to the log.
	Piped bool
	// Exclusive asks for CPU cores that no other process of the site runs on.
	Exclusive bool
	Limits    Limits
}

// Running is a live process. Done is closed when it has ended and Err then
// says why (nil only if it was asked to stop). Stop asks, then kills; it may
// be called twice and returns when the process is gone.
type Running interface {
	Done() <-chan struct{}
	Err() error
	Stop(ctx context.Context) error
	// Stream is the process's input and output; nil unless Piped.
	Stream() io.ReadWriteCloser
}

// Namespace is a network namespace of this host: a pod or a node of the lab.
// InNetwork runs f on a thread that is inside it.
type Namespace interface {
	Name() string
	InNetwork(f func() error) error
}

// Finisher is a Running whose program is meant to end by itself. ExitCode is
// its status, after Done. ReadFile reads a file of its private folder, until
// Stop; more than limit bytes are an error.
type Finisher interface {
	ExitCode() int
	ReadFile(name string, limit int64) ([]byte, error)
}

// NodeSite is a site whose nodes' network namespaces can be entered.
type NodeSite interface {
	Node(name string) (Namespace, error)
}

// SampledSite is a site that can tell what its pods and its host use.
type SampledSite interface {
	Samplers() []Sampler
	// Unavailable says in words what cannot be sampled here, and why.
	Unavailable() []string
}

// LoggedSite is a site that keeps its processes' logs: "pod/process" to the
// last part of what it printed.
type LoggedSite interface {
	Logs() map[string][]byte
}

// Layer is one part of the data plane, made by a plug-in. Deploy acts on a
// provisioned site and returns when its part is configured (not necessarily
// ready: the ready gate decides that through the real path). remove undoes
// exactly what Deploy did; it is nil if and only if err is not.
type Layer interface {
	Deploy(ctx context.Context, s Site) (remove func(context.Context) error, err error)
}

// Fronter is a layer that gives clients another address for a service than
// its pods' own. The topmost one of a stack decides.
type Fronter interface {
	Front(svc Service) []netip.AddrPort
}

// Observer is a layer that can tell, after traffic has passed, what it really
// does, read from the wire or from the live configuration, and what it claims.
// Facts that differ from the claims make a finding.
type Observer interface {
	Observe(ctx context.Context, s Site) (Ledger, error)
	Claims() []Claim
}

// App is what is under load. Deploy starts it in the pods of the topology's
// services; the site's Close ends it.
type App interface {
	Deploy(ctx context.Context, s Site) (Endpoints, error)
}

// Connector is an app whose services call each other. Connect is called when
// the stack is there and before the ready gate; front says at which addresses
// clients of a service reach it: what the topmost Fronter says, or the pods' own.
type Connector interface {
	Connect(ctx context.Context, s Site, front func(service string) []netip.AddrPort) error
}

// TopologyChecker is an app that needs certain services. Its ConfigErrors are
// problems of the study.
type TopologyChecker interface {
	CheckTopology(t Topology) error
}

// LoadChecker is an app that does not speak every protocol. Its error says
// which ones it speaks.
type LoadChecker interface {
	CheckLoad(l Load) error
}

// Endpoints are an app's servers. Of an app of several services the runner
// keeps those of the service that is under load.
type Endpoints struct {
	Service  string    `json:"service"`
	Backends []Backend `json:"backends"`
}

// Backend is one server: the pod it runs in, the identity it stamps on its
// answers, and its own address.
type Backend struct {
	Pod      string         `json:"pod"`
	Identity string         `json:"identity"`
	Addr     netip.AddrPort `json:"addr"`
	// Region is where the pod is. Nearest says that no other backend is in a
	// region that is closer to the pod that sends the load.
	Region  string `json:"region,omitempty"`
	Nearest bool   `json:"nearest,omitempty"`
}

// Sampler reads what something uses, now. Sample appends its readings to dst.
// It is called from one goroutine.
type Sampler interface {
	Sample(ctx context.Context, dst []Reading) ([]Reading, error)
}

// Fault is one harm. Inject returns when it acts; heal undoes it, as far as it
// can be undone, and may be called twice.
type Fault interface {
	Inject(ctx context.Context, s Site) (heal func(context.Context) error, err error)
}

// Mortal is a pod that faults can act on. It refuses to be killed or suspended
// where it sends the load: nobody would be left to see what happens.
type Mortal interface {
	// Kill ends all processes at once. With power, the pod is cut off first, so
	// that no peer is told, as when a machine loses its power; without, the kernel
	// resets the connections and refuses new ones, as when a program crashes. revive
	// starts the same processes again and may be called twice.
	Kill(ctx context.Context, power bool) (revive func(context.Context) error, err error)
	// Suspend stops all processes without ending them (SIGSTOP): connections stay
	// and nobody answers. resume may be called twice.
	Suspend(ctx context.Context) (resume func(context.Context) error, err error)
}

// Severer is a site that can cut what goes from one set of nodes to another, in
// both directions. mend may be called twice.
type Severer interface {
	Sever(ctx context.Context, a, b []string) (mend func(context.Context) error, err error)
}

// Striker is a Fault that takes pods away: Struck names them.
type Striker interface {
	Struck(s Site) []string
}

// FaultObserver is a Fault that can measure back, while it acts, what it does.
type FaultObserver interface {
	Observe(ctx context.Context, s Site) (Ledger, error)
}
