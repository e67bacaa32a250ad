package envoy

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// elsewhere are the claims that only the wire and the app's answers show.
func elsewhere() []string { return []string{model.FactPeer, model.FactWireProtocol} }

func target(t *testing.T, site model.Site, pod string) netip.AddrPort {
	t.Helper()
	return netip.AddrPortFrom(labtest.Pod(t, site, pod).Addr(), 8080)
}

// While the own region's server lives, all requests are its; when it dies they
// go to the other region, and they come back when it is no longer ejected.
func TestLocalityFailover(t *testing.T) {
	t.Parallel()
	program(t)
	site := labtest.Site(t, labtest.TwoRegions(2*time.Millisecond, false))
	labtest.StartServers(t, site)
	l := configured(t, `{"concurrency": 1, "load_balancing": "locality", "cluster_local": ["remote"],
		"outlier_detection": {"consecutive_5xx_errors": 1, "interval": "500ms", "base_ejection_time": "1s"}}`)
	labtest.Deploy(t, site, l)
	to := target(t, site, "server-home")
	labtest.AnsweredBy(t, site, "client-home", to, "server", "server-home")
	labtest.AnsweredBy(t, site, "client-away", to, "server", "server-away")
	for client, local := range map[string]string{"client-home": "server-home", "client-away": "server-away"} {
		labtest.Eventually(t, func() error { // on a busy machine a request may fail, and that takes the server out for a second
			const n = 40
			if got := labtest.Responders(t, site, client, to, "server", n); got[local] != n {
				return fmt.Errorf("%s was answered by %v, not only by %s", client, got, local)
			}
			return nil
		})
	}
	if _, err := labtest.Ask(t, site, "client-home", target(t, site, "remote-away"), "remote"); err == nil {
		t.Error("a cluster-local service has answered another cluster")
	}
	facts := labtest.Observed(t, site, l, elsewhere()...)
	for key, want := range map[string]string{
		"endpoints of server from cluster-home": "P0 home 1, P1 away 1",
		"endpoints of server from cluster-away": "P0 away 1, P1 home 1",
		"endpoints of remote from cluster-home": "none",
	} {
		if facts[key] != want {
			t.Errorf("%s: %q, want %q", key, facts[key], want)
		}
	}
	killed := time.Now()
	revive := labtest.Kill(t, site, "server-home")
	labtest.AnsweredBy(t, site, "client-home", to, "server", "server-away")
	t.Logf("ten answers of the other region %s after the kill", time.Since(killed))
	revive()
	labtest.Observed(t, site, l, append(elsewhere(), model.FactLevel)...) // at once, as after a load
	back := time.Now()
	labtest.AnsweredBy(t, site, "client-home", to, "server", "server-home")
	t.Logf("ten answers of the own region %s after the heal, with 1 s of ejection", time.Since(back))
	if facts := labtest.Observed(t, site, l, elsewhere()...); facts["endpoints taken out by outlier detection"] == "0" {
		t.Error("nothing was ejected")
	}
}

// A server that loses its power tells nobody. Requests wait until connecting to
// it has timed out; from then on the other region answers. With Istio's 10 s the
// clients would give up first, and none would.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	program(t)
	site := labtest.Site(t, labtest.TwoRegions(2*time.Millisecond, false))
	labtest.StartServers(t, site)
	labtest.Deploy(t, site, configured(t, `{"concurrency": 1, "load_balancing": "locality", "connect_timeout": "1s",
		"outlier_detection": {"consecutive_5xx_errors": 1, "interval": "500ms", "base_ejection_time": "2s"}}`))
	to := target(t, site, "server-home")
	labtest.AnsweredBy(t, site, "client-home", to, "server", "server-home")
	mortal, ok := labtest.Pod(t, site, "server-home").(model.Mortal)
	if !ok {
		t.Fatal("the lab's pods cannot be killed")
	}
	killed := time.Now()
	revive, err := mortal.Kill(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	labtest.AnsweredBy(t, site, "client-home", to, "server", "server-away")
	t.Logf("ten answers of the other region %s after the loss, with a connect timeout of 1 s", time.Since(killed))
	if err := revive(t.Context()); err != nil {
		t.Error(err)
	}
}

// Round robin takes no account of regions: each gets about half. The first
// request to another region waits for TCP, mutual TLS and itself; later ones
// only for themselves.
func TestRoundRobin(t *testing.T) {
	t.Parallel()
	program(t)
	const delay = 20 * time.Millisecond
	site := labtest.Site(t, labtest.TwoRegions(delay, false))
	labtest.StartServers(t, site)
	labtest.AnsweredBy(t, site, "client-home", target(t, site, "server-home"), "server", "server-home")
	labtest.Deploy(t, site, configured(t, `{"concurrency": 1, "load_balancing": "round-robin"}`))
	to := target(t, site, "remote-away")
	ask := func() time.Duration {
		begin := time.Now()
		if _, err := labtest.Ask(t, site, "client-home", to, "remote"); err != nil {
			t.Error(err)
		}
		return time.Since(begin)
	}
	first, later := ask(), time.Hour
	for range 10 {
		later = min(later, ask())
	}
	const rtt = 2 * delay
	t.Logf("round trip %s: the first request took %s (%.1f), the fastest later one %s (%.1f)",
		rtt, first, first.Seconds()/rtt.Seconds(), later, later.Seconds()/rtt.Seconds())
	const exact = 95 // percent: the emulation may be early by a little
	if first < 3*rtt*exact/100 || later < rtt*exact/100 || later >= first {
		t.Errorf("not 3 round trips and then 1")
	}
	const n = 40
	got := labtest.Responders(t, site, "client-home", target(t, site, "server-home"), "server", n)
	if min(got["server-home"], got["server-away"]) < n/3 {
		t.Errorf("of %d requests %v, not about half each", n, got)
	}
}
