package proxy

import (
	"net/netip"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

// Flat is a site as sidecars see it that send to pods' own addresses.
type Flat struct {
	Services []Service
	Pods     []Beside
	// OnWire says whether whatever clients send to services leaves their node.
	OnWire bool
}

// Service is a service with its endpoints.
type Service struct {
	model.Service

	Endpoints []model.Pod
}

// Beside is a pod that a proxy can run beside.
type Beside struct {
	Pod   model.Pod
	Role  string
	Where Place
}

// Flatten finds services and pods. Clusters of different networks, whose pods
// cannot reach each other, are refused.
func Flatten(s model.Site, layer string) (f Flat, err error) {
	t := s.Topology()
	places, err := Locate(s)
	if err != nil {
		return f, err
	}
	if places.Networks() {
		return f, &model.UnsupportedError{
			What: "the layer " + layer, Missing: "the clusters have different networks, and its sidecars send to pods' own addresses",
			Hint: "give all clusters the same network",
		}
	}
	f.OnWire = Apart(t)
	for _, blueprint := range t.Services {
		var one Service
		if one.Service, err = s.Service(blueprint.Name); err != nil {
			return f, err
		}
		for _, name := range one.Pods {
			pod, err := s.Pod(name)
			if err != nil {
				return f, err
			}
			one.Endpoints = append(one.Endpoints, pod)
		}
		f.Services = append(f.Services, one)
	}
	for _, n := range t.Nodes() {
		for _, p := range n.Pods {
			one, err := beside(s, p, layer)
			if err != nil {
				return f, err
			}
			f.Pods = append(f.Pods, one)
		}
	}
	return f, nil
}

func beside(s model.Site, p model.PodSpec, layer string) (Beside, error) {
	pod, err := s.Pod(p.Name)
	if err != nil {
		return Beside{}, err
	}
	where, ok := pod.(Place)
	if !ok {
		return Beside{}, &model.UnsupportedError{What: "the layer " + layer, Missing: "this target's pods have no network namespace to redirect traffic in", Hint: "use the lab"}
	}
	return Beside{Pod: pod, Role: p.Role, Where: where}, nil
}

// Outbound redirects what a pod sends to services' virtual addresses, to the
// port for the i-th. A sidecar's own connections go to pods' addresses and to
// loopback, and so are left alone.
func Outbound(services []Service, port func(i int) uint16) nft.Chain {
	c := nft.Chain{Name: "outbound", Hook: nft.HookOutput}
	for i, svc := range services {
		match := nft.Match{TCP: true, Destination: netip.PrefixFrom(svc.VIP, svc.VIP.BitLen()), DestinationPort: svc.Port}
		c.Rules = append(c.Rules, nft.Rule{If: match, Count: true, Do: nft.Redirect(port(i)), Comment: "to service " + svc.Name})
	}
	return c
}

// Inbound redirects what comes in for a pod's ports, to the port for the i-th.
func Inbound(ports []uint16, port func(i int) uint16) nft.Chain {
	c := nft.Chain{Name: "inbound", Hook: nft.HookPrerouting, Rules: []nft.Rule{{If: nft.Match{In: "lo"}, Do: nft.Accept(), Comment: "loopback"}}}
	for i, own := range ports {
		c.Rules = append(c.Rules, nft.Rule{If: nft.Match{TCP: true, DestinationPort: own}, Count: true, Do: nft.Redirect(port(i)), Comment: "into the pod"})
	}
	return c
}
