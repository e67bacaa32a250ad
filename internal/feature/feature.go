// Package feature proves what a stack can do by making it do it: every feature
// is a check that gives the stack's layers rules, sends requests that the rules
// are about, and judges by what the clients and the servers have seen. A layer
// that takes no rules is sent the same requests.
//
// The requests are sent and received by scouts: processes of this program in
// pods, which obey orders over their standard input, and so work wherever pods
// do.
package feature

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Verdict says whether a stack has a feature.
type Verdict string

// The verdicts.
const (
	Yes    Verdict = "yes"
	Partly Verdict = "partly"
	No     Verdict = "no"
)

// Result is a verdict with its evidence.
type Result struct {
	Verdict Verdict `json:"verdict"`
	Sent    string  `json:"sent"`
	Seen    string  `json:"seen"`
	// Rules says what became of the check's rules; empty: it has none.
	Rules string `json:"rules,omitempty"`
}

// Line is a feature with its result under every variant.
type Line struct {
	Group   string   `json:"group"`
	Feature string   `json:"feature"`
	Asks    string   `json:"asks"`
	Results []Result `json:"results"` // by variant
}

// Table is what `windtunnel features` prints.
type Table struct {
	Variants []Column `json:"variants"`
	Lines    []Line   `json:"features"`
}

// Column is a variant, with the layers of its stack, bottom up.
type Column struct {
	Name   string   `json:"name"`
	Layers []string `json:"layers"`
	// Programs are those that did it, as the layers say.
	Programs []string `json:"programs,omitempty"`
}

// Check is one feature. It is data: what is asked of the layers, what is sent,
// and a pure judgement of what was seen.
type Check struct {
	Group string
	Name  string
	Asks  string // the rules and what must be seen, in words
	// Rules are applied before, and undone after; nil: none are needed.
	Rules  func(at Addresses) model.Rules
	Behave map[string]Behaviour // of servers, by pod
	Bursts []Burst              // sent one after the other
	Hellos []Hello              // TLS handshakes with the service's pods
	// Rotate has the layers give their proxies new certificates in the middle of
	// the first burst; handshakes are then done before and after it.
	Rotate bool
	// Meter and Logs have the layers' counters and the proxies' logs read before
	// and after.
	Meter, Logs bool
	Judge       func(Seen) Result
}

// Addresses are those of servers outside the mesh that rules name.
type Addresses struct {
	Allowed netip.AddrPort
	Spans   netip.AddrPort
}

// Hello is a TLS handshake from outside the mesh with one of the pods.
type Hello struct {
	Pod             string
	Lowest, Highest uint16 // versions
	Ciphers         []uint16
}

// Seen is all that a check has to judge by.
type Seen struct {
	Replies [][]Reply      // by burst
	Got     map[string]Got // by server
	Shown   []Shown        // by handshake; where certificates are rotated, first all before, then all after
	// Rotated says that some layer has rotated certificates.
	Rotated bool
	Counted map[int]int // requests by class of status, as the layers count; nil: none counts
	Lines   []string    // of proxies' logs that name a request of the burst
	// Connections are translated at L4, as the ledger says.
	Translated bool
}

// Names of the scouts' places.
const (
	Service    = "server"
	Client     = "client"   // a pod that sends
	Stranger   = "stranger" // another, of another identity
	Outside    = "node-2"   // a node without pods: outside the mesh
	gatewayOn  = "node-0"   // where the ingress is
	portDoor   = 15080      // of the ingress
	portGood   = 9001       // outside, allowed
	portBad    = 9002       // outside, not allowed
	portSpans  = 9003       // outside, where proxies tell spans
	portTarget = 8080       // of the service's pods
	portHBONE  = 15008      // of ambient meshes, in every pod
	hostDoor   = "shop.example"
	patience   = 3 * time.Second // of every request
)

// Topology is where checks are done: two clients of different roles on one node,
// two pods of version 1 and one of version 2 on another, and a third node that
// no layer has a proxy for.
func Topology() model.Topology {
	return model.Topology{
		Regions: []model.Region{{Name: "region-0", Clusters: []model.Cluster{{Name: "cluster-0", Nodes: []model.Node{
			{Name: "node-0", Pods: []model.PodSpec{{Name: Client, Role: model.RoleClient}, {Name: Stranger, Role: Stranger}}},
			{Name: "node-1", Pods: []model.PodSpec{{Name: "v1-a", Role: Service}, {Name: "v1-b", Role: Service}, {Name: "v2-a", Role: Service}}},
			{Name: Outside},
		}}}}},
		Services: []model.Service{{Name: Service, Port: 80, TargetPort: portTarget, Pods: Pods()}},
	}
}

// Pods are the service's.
func Pods() []string { return []string{"v1-a", "v1-b", "v2-a"} }

// Subsets are the service's versions.
func Subsets() map[string][]string {
	return map[string][]string{"v1": {"v1-a", "v1-b"}, "v2": {"v2-a"}}
}

func percent(part, whole int) string {
	if whole == 0 {
		return "-"
	}
	const hundred = 100
	return fmt.Sprintf("%d %%", (part*hundred+whole/2)/whole)
}
