package lab

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sample/traffic"
)

// maxTrafficPlaces bounds how many namespaces are read for traffic: more take
// longer than readings of one moment should.
const maxTrafficPlaces = 64

// trafficPlaces are all nodes and pods; none where they are too many.
func (s *site) trafficPlaces() []traffic.Place {
	if len(s.nodes)+len(s.pods) > maxTrafficPlaces {
		return nil
	}
	var all []traffic.Place
	for i, w := range s.Wiring() {
		node := traffic.Place{Kind: model.PlaceNode, Space: s.nodes[i], Underlay: w.Underlay, Without: []string{w.Bridge}}
		for _, p := range w.Pods {
			node.Without = append(node.Without, p.Device)
			all = append(all, traffic.Place{Kind: model.PlacePod, Space: s.pods[p.Name]})
		}
		all = append(all, node)
	}
	return all
}

// trafficSamplers are none where there are too many places.
func (s *site) trafficSamplers() []model.Sampler {
	places := s.trafficPlaces()
	if len(places) == 0 {
		return nil
	}
	return []model.Sampler{traffic.Sampler{Places: places}}
}

// trafficUnavailable says why there is no traffic to be seen; "": there is.
func (s *site) trafficUnavailable() string {
	if n := len(s.nodes) + len(s.pods); n > maxTrafficPlaces {
		return fmt.Sprintf("traffic by device: the site has %d nodes and pods, and up to %d are read", n, maxTrafficPlaces)
	}
	return ""
}
