package ovs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/openflow"
)

// Keys of the facts that only this layer tells.
const (
	factFlows   = "OpenFlow flows"
	factTraffic = "traffic by flow counters"
	factMissed  = "drops at the switches' ports"
)

// dataPath makes sure that the pods are ports of the switches.
func (f *fabric) dataPath(s *network.Site) (string, error) {
	for _, n := range s.Nodes {
		err := f.ask(n, func(sw *openflow.Switch) error {
			ports, err := portsOf(sw)
			if err != nil {
				return err
			}
			for _, d := range devices(n) {
				if _, ok := ports[d]; !ok {
					return fmt.Errorf("node %s: %s is no port of %s", n.Node, d, bridgeInt)
				}
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return "Open vSwitch, user-space datapath", nil
}

// seen is what switches have told of themselves.
type seen struct {
	program    []string
	flows      int
	switches   int
	tables     map[uint8]bool
	endpoints  int    // of the groups
	toServices uint64 // packets
	drops      uint64
	pods       []string // traffic of each
}

// more reads the switches back: by their own counters, whatever the controller
// thinks.
func (f *fabric) more(s *network.Site) (model.Ledger, error) {
	all := seen{tables: map[uint8]bool{}}
	for _, n := range s.Nodes {
		if err := f.ask(n, func(sw *openflow.Switch) error { return all.add(n, sw) }); err != nil {
			return nil, err
		}
	}
	slices.Sort(all.program)
	facts := model.Ledger{
		{Key: model.FactProgram, Value: strings.Join(slices.Compact(all.program), ", "), Source: model.SourceProgram},
		{Key: factFlows, Value: fmt.Sprintf("%d in %d tables of %d switches", all.flows, len(all.tables), all.switches), Source: model.SourceConfig},
		{Key: factTraffic, Value: strings.Join(all.pods, "; "), Source: model.SourceCounters},
		{Key: factMissed, Value: fmt.Sprintf("%d packets", all.drops), Source: model.SourceCounters},
	}
	if f.config.Services == groups {
		facts = append(facts, all.balancing()...)
	}
	for i := range facts {
		facts[i].Layer = Name
	}
	return facts, nil
}

// balancing is what becomes of connections to services.
func (a *seen) balancing() model.Ledger {
	translated := "none: a layer above takes the traffic first"
	if a.toServices > 0 {
		translated = "yes, at L4"
	}
	return model.Ledger{
		{Key: model.FactBalancing, Value: fmt.Sprintf("OpenFlow select group with connection tracking, over %d endpoints", a.endpoints), Source: model.SourceConfig},
		{Key: model.FactTranslated, Value: translated, Source: model.SourceCounters},
	}
}

// add reads one switch.
func (a *seen) add(n *network.Node, sw *openflow.Switch) error {
	program, err := sw.Program()
	if err != nil {
		return err
	}
	flows, err := sw.Flows()
	if err != nil {
		return err
	}
	groups, err := sw.Groups()
	if err != nil {
		return err
	}
	counters, err := sw.PortCounters()
	if err != nil {
		return err
	}
	a.program, a.switches, a.flows = append(a.program, program), a.switches+1, a.flows+len(flows)
	for _, f := range flows {
		a.tables[f.Flow.Table] = true
		if f.Flow.Table == tableConnection && f.Flow.Priority == special {
			a.toServices += f.Packets // groups' own counters begin anew with every change
		}
	}
	a.endpoints = 0 // every switch has the same groups
	for _, g := range groups {
		a.endpoints += len(g.Buckets)
	}
	for _, c := range counters {
		a.drops += c.Dropped
	}
	for _, p := range n.Ends {
		sent, received := traffic(flows, p)
		a.pods = append(a.pods, fmt.Sprintf("%s sent %d packets (%d bytes), received %d (%d)", p.Name, sent.Packets, sent.Bytes, received.Packets, received.Bytes))
	}
	return nil
}

// traffic is what a pod has sent and received, by the two flows that count it.
func traffic(flows []openflow.FlowCounters, p *network.Pod) (sent, received openflow.FlowCounters) {
	for _, f := range flows {
		src, dst, ok := f.Flow.Match.Addrs()
		switch {
		case !ok:
		case f.Flow.Table == tableIn && src == p.Addr:
			sent = f
		case f.Flow.Table == tableOut && dst == p.Addr:
			received = f
		}
	}
	return sent, received
}
