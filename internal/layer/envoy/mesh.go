package envoy

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// mesh is what the sidecars of one deployment share.
type mesh struct {
	config   Config
	traced   bool
	places   *proxy.Places
	services []service
	sidecars []*sidecar
	ca       *proxy.CA
}

// service is a service with all addresses by which it is asked for.
type service struct {
	model.Service

	vips  []string
	addrs []string // of the pods, in all clusters
	http  bool
}

// has says whether a pod is one of the service's.
func (s service) has(pod string) bool { return slices.Contains(s.Pods, pod) }

// roles are those of all pods, each once: their service accounts.
func (m *mesh) roles() []string {
	var all []string
	for _, sc := range m.sidecars {
		all = append(all, sc.role)
	}
	if len(m.config.Ingress) > 0 {
		all = append(all, roleDoor)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// trustDomain begins every identity of a lab's mesh.
func (m *mesh) trustDomain() string {
	if m.config.Profile == proxy.Kuma {
		return "default" // the mesh's name
	}
	return "windtunnel.local"
}

// identity is the SPIFFE identity of a role, as Istio writes service accounts or
// Kuma services.
func (m *mesh) identity(role string) string {
	if m.config.Profile == proxy.Kuma {
		return "spiffe://" + m.trustDomain() + "/" + role
	}
	return "spiffe://" + m.trustDomain() + "/ns/default/sa/" + role
}

func newMesh(s model.Site, c Config) (*mesh, error) {
	m := &mesh{config: c}
	if err := c.suits(s.Topology()); err != nil {
		return nil, err
	}
	var err error
	if m.places, err = proxy.Locate(s); err != nil {
		return nil, err
	}
	if err = errors.Join(m.findServices(s), m.findPods(s)); err != nil {
		return nil, err
	}
	m.ca, err = proxy.NewCA("windtunnel mesh CA")
	return m, err
}

func (m *mesh) findServices(s model.Site) error {
	for i, blueprint := range s.Topology().Services {
		svc, err := s.Service(blueprint.Name)
		if err != nil {
			return err
		}
		one := service{Service: svc, vips: []string{svc.VIP.String()}, http: m.config.Protocol != TCP && !slices.Contains(m.config.TCP, svc.Name)}
		if m.config.Profile == proxy.Kuma {
			one.vips = append(one.vips, kumaVIP(i).String())
		}
		for _, name := range svc.Pods {
			pod, err := s.Pod(name)
			if err != nil {
				return err
			}
			one.addrs = append(one.addrs, pod.Addr().String())
		}
		m.services = append(m.services, one)
	}
	return nil
}

func (m *mesh) findPods(s model.Site) error {
	for _, n := range s.Topology().Nodes() {
		for _, p := range n.Pods {
			if p.Role == model.RoleClient && len(m.config.Ingress) > 0 {
				continue // outside the mesh
			}
			pod, err := s.Pod(p.Name)
			if err != nil {
				return err
			}
			where, ok := pod.(proxy.Place)
			if !ok {
				return &model.UnsupportedError{What: "the envoy layer", Missing: "this target's pods have no network namespace to redirect traffic in", Hint: "use the lab"}
			}
			m.sidecars = append(m.sidecars, &sidecar{Envoy: proxy.Envoy{Where: where, Admin: portAdmin}, pod: pod, role: p.Role})
		}
	}
	return nil
}

// leaf makes a certificate and key for a role.
func (m *mesh) leaf(role string) (cert, key []byte, err error) {
	uri, err := url.Parse(m.identity(role))
	if err != nil {
		return nil, nil, fmt.Errorf("making %s's identity: %w", role, err)
	}
	return m.ca.Leaf(proxy.Issued{URI: uri})
}

// files are a sidecar's configuration and credentials.
func (m *mesh) files(sc *sidecar) (map[string][]byte, error) {
	cert, key, err := m.leaf(sc.role)
	if err != nil {
		return nil, err
	}
	config, err := m.bootstrap(sc)
	return map[string][]byte{"envoy.json": config, "cert.pem": cert, "key.pem": key, "ca.pem": m.ca.PEM()}, err
}
