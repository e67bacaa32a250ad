// Package policy says which pods may send to which, by nftables rules on the
// node of the pod that is sent to, as network policies are enforced. The
// number of rules before the one that decides can be chosen: it is what
// policies cost.
package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

// Name is the layer's name in studies.
const Name = "policy"

const (
	table    = "windtunnel-policy"
	maxRules = 1000
)

// The words of the configuration.
const (
	perConnection = "connection"
	perPacket     = "packet"
	allow         = "allow"
	deny          = "deny"
)

// Config is the layer's configuration in a study.
type Config struct {
	// Rules is how many rules are tried, and match nothing, before the study's own.
	Rules int `json:"rules,omitempty" jsonschema:"minimum=0,maximum=1000,default=0"`
	// Each says what is tried: the first packet of every connection, or every packet.
	Each string `json:"each,omitempty" jsonschema:"enum=connection,enum=packet,default=connection"`
	// Default is what becomes of what neither Allow nor Deny names.
	Default string `json:"default,omitempty" jsonschema:"enum=allow,enum=deny,default=allow"`
	// Deny comes before Allow.
	Allow []Pair `json:"allow,omitempty"`
	Deny  []Pair `json:"deny,omitempty"`
}

// Pair names who sends and who is sent to: a pod, a role or, if absent, all.
type Pair struct {
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.Layer] {
	return model.Plugin[model.Layer]{
		Name:    Name,
		Summary: "which pods may send to which: nftables rules on the nodes, as many as you like",
		Config:  Config{},
		New: func(raw json.RawMessage) (model.Layer, error) {
			c := Config{Each: perConnection, Default: allow}
			if err := model.ReadConfig(raw, &c); err != nil {
				return nil, err
			}
			return &Layer{config: c}, c.check()
		},
	}
}

func (c Config) check() error {
	var errs []error
	if c.Rules < 0 || c.Rules > maxRules {
		errs = append(errs, &model.ConfigError{Key: "rules", Text: fmt.Sprintf("is %d; it can be 0 to %d", c.Rules, maxRules)})
	}
	if c.Each != perConnection && c.Each != perPacket {
		errs = append(errs, &model.ConfigError{Key: "each", Text: fmt.Sprintf("is %q; it can be %s or %s", c.Each, perConnection, perPacket)})
	}
	if c.Default != allow && c.Default != deny {
		errs = append(errs, &model.ConfigError{Key: "default", Text: fmt.Sprintf("is %q; it can be %s or %s", c.Default, allow, deny)})
	}
	return errors.Join(errs...)
}

// Layer is one deployment of rules.
type Layer struct{ config Config }

var (
	_ model.Layer    = (*Layer)(nil)
	_ model.Observer = (*Layer)(nil)
)

// Deploy puts the rules on every node.
func (l *Layer) Deploy(ctx context.Context, s model.Site) (func(context.Context) error, error) {
	wired, ok := s.(model.WiredSite)
	if !ok {
		return nil, &model.UnsupportedError{What: "the layer " + Name, Missing: "this target's nodes have no network namespace to put rules in", Hint: "use the lab"}
	}
	var done []model.Namespace
	remove := func(context.Context) error {
		var errs []error
		for _, n := range done {
			errs = append(errs, n.InNetwork(func() error { return nft.Delete(table) }))
		}
		return errors.Join(errs...)
	}
	for _, w := range wired.Wiring() {
		rules, err := l.rules(s, w)
		if err == nil {
			err = passesNode(s, w)
		}
		var node model.Namespace
		if err == nil {
			node, err = wired.Node(w.Node)
		}
		if err == nil {
			err = node.InNetwork(func() error { return nft.Apply(rules) })
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("node %s: %w", w.Node, err), remove(context.WithoutCancel(ctx)))
		}
		done = append(done, node)
	}
	return remove, nil
}

// passesNode makes sure that what is sent to the node's pods passes its rules.
func passesNode(s model.Site, w model.Wiring) error {
	for _, p := range w.Pods {
		pod, err := s.Pod(p.Name)
		if err != nil {
			return err
		}
		in, ok := pod.(model.Namespace)
		if !ok {
			continue
		}
		err = network.In(in, func(net *sys.Net) error {
			d, failure := net.Device(network.PodDevice)
			if failure == nil && d.Kind == "macvlan" {
				return &model.UnsupportedError{
					What: "the layer " + Name + " on macvlan", Missing: "what pods send each other does not pass their node", Hint: "use another network layer",
				}
			}
			return failure
		})
		if err != nil {
			return fmt.Errorf("pod %s: %w", p.Name, err)
		}
	}
	return nil
}

// rules is a node's table: what is for its own pods is tried.
func (l *Layer) rules(s model.Site, w model.Wiring) (nft.Table, error) {
	var tried []nft.Rule
	for i := range l.config.Rules {
		tried = append(tried, nft.Rule{If: nft.Match{Source: nobody(i)}, Do: nft.Drop()})
	}
	for _, part := range []struct {
		pairs []Pair
		do    nft.Action
		says  string
	}{{l.config.Deny, nft.Drop(), deny}, {l.config.Allow, nft.Accept(), allow}} {
		for _, p := range part.pairs {
			more, err := l.pair(s, w, p, part.do, part.says)
			if err != nil {
				return nft.Table{}, err
			}
			tried = append(tried, more...)
		}
	}
	last := nft.Rule{Count: true, Do: nft.Accept(), Comment: "default " + allow}
	if l.config.Default == deny {
		last.Do, last.Comment = nft.Drop(), "default "+deny
	}
	forward := []nft.Rule{{If: nft.Match{Destination: w.Range}, Do: nft.Goto("pods")}}
	if l.config.Each == perConnection {
		forward = slices.Insert(forward, 0, nft.Rule{If: nft.Match{Established: true}, Do: nft.Accept()})
	}
	return nft.Table{Name: table, Chains: []nft.Chain{
		{Name: "pods", Rules: append(tried, last)},
		{Name: "forward", Hook: nft.HookForward, Rules: forward},
	}}, nil
}

// nobody is an address that no pod has: one of those for benchmarks (RFC 2544).
func nobody(i int) netip.Prefix {
	return network.Host(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})) //nolint:gosec // at most maxRules
}

// pair makes the rules of one pair on a node. Without connections, answers
// need a rule of their own.
func (l *Layer) pair(s model.Site, w model.Wiring, p Pair, do nft.Action, says string) ([]nft.Rule, error) {
	ways := []Pair{p}
	if l.config.Each == perPacket {
		ways = append(ways, Pair{From: p.To, To: p.From})
	}
	var out []nft.Rule
	for _, way := range ways {
		from, err := addrs(s, way.From)
		if err != nil {
			return nil, err
		}
		to, err := addrs(s, way.To)
		if err != nil {
			return nil, err
		}
		for _, a := range from {
			for _, b := range to {
				if !b.IsValid() || w.Range.Contains(b.Addr()) {
					out = append(out, nft.Rule{If: nft.Match{Source: a, Destination: b}, Count: true, Do: do, Comment: says + " " + way.From + " to " + way.To})
				}
			}
		}
	}
	return out, nil
}

// addrs are those of a pod or of all pods of a role; of "" the one that
// matches everything.
func addrs(s model.Site, name string) ([]netip.Prefix, error) {
	if name == "" {
		return []netip.Prefix{{}}, nil
	}
	var all []netip.Prefix
	for _, n := range s.Topology().Nodes() {
		for _, p := range n.Pods {
			if p.Name != name && p.Role != name {
				continue
			}
			pod, err := s.Pod(p.Name)
			if err != nil {
				return nil, err
			}
			all = append(all, network.Host(pod.Addr()))
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s names %q, which is neither a pod nor a role of the topology", Name, name)
	}
	return all, nil
}

// Claims are the number of rules.
func (l *Layer) Claims() []model.Claim {
	return []model.Claim{{Layer: Name, Key: "rules", Value: strconv.Itoa(l.config.Rules)}}
}

// Observe reads the rules of all nodes back, with what they did.
func (l *Layer) Observe(_ context.Context, s model.Site) (model.Ledger, error) {
	wired, ok := s.(model.WiredSite)
	if !ok {
		return nil, fmt.Errorf("%s is not deployed", Name)
	}
	all := tally{idle: maxRules + 1}
	for _, w := range wired.Wiring() {
		node, err := wired.Node(w.Node)
		if err != nil {
			return nil, err
		}
		if err := node.InNetwork(all.read); err != nil {
			return nil, fmt.Errorf("node %s: %w", w.Node, err)
		}
	}
	return model.Ledger{
		{Layer: Name, Key: "rules", Value: strconv.Itoa(all.idle), Source: model.SourceConfig},
		{Layer: Name, Key: "rules are tried for", Value: "each " + l.config.Each, Source: model.SourceConfig},
		{Layer: Name, Key: "packets tried", Value: fmt.Sprintf("%d allowed, %d denied", all.allowed, all.denied), Source: model.SourceCounters},
	}, nil
}

// tally is what the rules of all nodes are and did.
type tally struct {
	idle            int // rules that match nothing, on the node with the fewest
	allowed, denied uint64
}

// read adds the table of the calling thread's namespace.
func (t *tally) read() error {
	live, err := nft.Read(table)
	if err != nil {
		return err
	}
	idle := 0
	for _, c := range live.Chains {
		for _, r := range c.Rules {
			switch {
			case c.Name == "pods" && r.Comment == "":
				idle++
			case strings.Contains(r.Comment, deny):
				t.denied += r.Connections
			default:
				t.allowed += r.Connections
			}
		}
	}
	t.idle = min(t.idle, idle)
	return nil
}
