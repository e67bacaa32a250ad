package proxy

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answer is what Envoy 1.40 says, shortened.
const answer = `{"cluster_statuses": [{"name": "outbound|80||server", "added_via_api": false, "host_statuses": [
 {"address": {"socket_address": {"address": "10.128.4.2", "port_value": 8080}},
  "stats": [{"name": "cx_connect_fail"}, {"value": "7", "name": "rq_total"}, {"type": "GAUGE", "name": "cx_active", "value": "1"}],
  "health_status": {"eds_health_status": "HEALTHY", "failed_outlier_check": true}, "weight": 1, "locality": {"region": "home", "zone": "cluster-home"}},
 {"address": {"socket_address": {"address": "172.18.0.4", "port_value": 15443}},
  "stats": [{"name": "rq_total"}], "health_status": {"eds_health_status": "HEALTHY"}, "weight": 2, "priority": 1, "locality": {"region": "away"}},
 {"address": {"pipe": {"path": "/x"}}}]},
 {"name": "PassthroughCluster"}]}`

func TestParseHosts(t *testing.T) {
	t.Parallel()
	got, err := ParseHosts([]byte(answer))
	want := []Host{
		{Cluster: "outbound|80||server", Addr: netip.MustParseAddrPort("10.128.4.2:8080"), Region: "home", Sent: 7},
		{Cluster: "outbound|80||server", Addr: netip.MustParseAddrPort("172.18.0.4:15443"), Region: "away", Priority: 1, Healthy: true},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" || err != nil {
		t.Errorf("%v; (-want +got) %s", err, diff)
	}
	if _, err := ParseHosts([]byte("none")); err == nil {
		t.Error("what is no JSON was read")
	}
}

func FuzzParseHosts(f *testing.F) {
	f.Add([]byte(answer))
	f.Fuzz(func(t *testing.T, raw []byte) {
		hosts, err := ParseHosts(raw)
		for _, h := range hosts {
			if err != nil || !h.Addr.IsValid() {
				t.Errorf("%+v, %v", h, err)
			}
		}
	})
}

func TestCounters(t *testing.T) {
	t.Parallel()
	got := maps.Collect(Counters([]byte("a.b: 3\nzero: 0\ntext: x\nnone\nhistogram: P0(1,1)\n  c|80||d.e: 4\n")))
	if diff := cmp.Diff(map[string]uint64{"a.b": 3, "c|80||d.e": 4}, got); diff != "" {
		t.Error(diff)
	}
}
