package network

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Observed is what a layer has read back of itself; PodMTU adds the rest.
type Observed struct {
	DataPath string
	Overhead string // "" : the layer adds nothing
	Routes   string
}

// Ledger is what the pods have now, and what the layer has read back.
func (s *Site) Ledger(o Observed) (model.Ledger, error) {
	mtu, err := s.PodMTU()
	if err != nil {
		return nil, err
	}
	if o.Overhead == "" {
		o.Overhead = "0 bytes"
	}
	facts := [][2]string{
		{model.FactDataPath, o.DataPath}, {model.FactMTU, mtu}, {model.FactOverhead, o.Overhead}, {model.FactRoutes, o.Routes},
	}
	var ledger model.Ledger
	for _, f := range facts {
		if f[1] != "" {
			ledger = append(ledger, model.Fact{Layer: s.Layer, Key: f[0], Value: f[1], Source: model.SourceConfig})
		}
	}
	return ledger, nil
}

// PodMTU reads the MTU of all pods' devices: one number, or the least and the
// most.
func (s *Site) PodMTU() (string, error) {
	var all []int
	for _, n := range s.Nodes {
		for _, p := range n.Ends {
			err := In(p.Space, func(net *sys.Net) error {
				mtu, err := net.MTU(PodDevice)
				all = append(all, mtu)
				return err
			})
			if err != nil {
				return "", fmt.Errorf("pod %s: %w", p.Name, err)
			}
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	least, most := slices.Min(all), slices.Max(all)
	if least == most {
		return strconv.Itoa(least), nil
	}
	return fmt.Sprintf("%d to %d", least, most), nil
}

// Claims are that the pods have the MTU that was asked for and, where all that
// clients send to servers must cross the underlay in one form, that the wire
// shows this form. on is what traffic between two nodes is carried in.
func (s *Site) Claims(mtu int, on func(a, b *Node) string) []model.Claim {
	claims := []model.Claim{{Layer: s.Layer, Key: model.FactMTU, Value: strconv.Itoa(mtu)}}
	forms := map[string]bool{}
	for _, a := range s.Nodes {
		for _, b := range s.Nodes {
			if !a.has("client") || !b.has("server") {
				continue
			}
			if a == b || !s.Across && a.Network != b.Network {
				return claims // some of it stays on the node, or takes another way
			}
			forms[on(a, b)] = true
		}
	}
	if len(forms) == 1 {
		for form := range forms {
			claims = append(claims, model.Claim{Layer: s.Layer, Key: model.FactEncapsulation, Value: form})
		}
	}
	return claims
}

func (n *Node) has(role string) bool {
	return slices.ContainsFunc(n.Ends, func(p *Pod) bool { return p.Role == role })
}

// Always is the form of everything, for Claims.
func Always(form string) func(a, b *Node) string { return func(_, _ *Node) string { return form } }
