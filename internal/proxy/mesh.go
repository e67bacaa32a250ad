package proxy

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Profile is the mesh whose control plane's configuration is imitated.
type Profile string

// The profiles.
const (
	Istio Profile = "istio"
	Kuma  Profile = "kuma"
)

// Check refuses others.
func (p Profile) Check() error {
	if p != Istio && p != Kuma {
		return Bad("profile", "is %q; it can be istio or kuma", string(p))
	}
	return nil
}

// GatewayPort is where gateways between clusters listen: Istio's east-west
// gateway, Kuma's zone ingress.
func (p Profile) GatewayPort() uint16 {
	const istio, kuma = 15443, 10001
	if p == Kuma {
		return kuma
	}
	return istio
}

// Beyond says whether endpoints in another cluster are reached through its
// gateway: in Istio those of other networks, in Kuma those of all other zones.
func (p Profile) Beyond(from, to *Cluster) bool { return p == Kuma || from.Network != to.Network }

// ServerName is the SNI by which a gateway knows the service.
func (p Profile) ServerName(svc model.Service) string {
	if p == Kuma {
		return KumaService(svc) + "{mesh=default}"
	}
	return fmt.Sprintf("outbound_.%d_._.%s.default.svc.cluster.local", svc.Port, svc.Name)
}

// KumaService is the name that Kuma gives a Service of Kubernetes.
func KumaService(svc model.Service) string {
	return fmt.Sprintf("%s_default_svc_%d", svc.Name, svc.Port)
}
