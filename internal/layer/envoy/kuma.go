package envoy

import (
	"net/netip"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Kuma's default policies MeshTimeout, MeshRetry and MeshCircuitBreaker.
const (
	kumaConnectTimeout = "5s"
	kumaRequestTimeout = "15s"
	kumaRetries        = 5
	kumaMost           = 1024 // connections, pending requests, requests
	kumaMostRetries    = 3
)

func kumaRetryPolicy() object {
	return object{
		"retry_on": "gateway-error,connect-failure,refused-stream", "num_retries": kumaRetries,
		"retry_back_off": object{"base_interval": "0.025s", "max_interval": "0.25s"},
	}
}

// kumaVIP is the virtual address of the i-th service: in Kuma's 240.0.0.0/4,
// which is nobody's, so that only a sidecar can know what is meant.
func kumaVIP(i int) netip.Addr {
	n := i + 1
	return netip.AddrFrom4([4]byte{240, byte(n >> 16), byte(n >> 8), byte(n)}) //nolint:gosec // there are fewer services than 2^24
}

// kumaLayer also is the address of services: Kuma's DNS gives clients one of
// its own.
type kumaLayer struct{ *Layer }

var _ model.Fronter = kumaLayer{}

// Front is the service's address in Kuma's DNS.
func (l kumaLayer) Front(svc model.Service) []netip.AddrPort {
	for i, s := range l.mesh.services {
		if s.Name == svc.Name {
			return []netip.AddrPort{netip.AddrPortFrom(kumaVIP(i), svc.Port)}
		}
	}
	return nil
}
