package lab_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/wan"
	"github.com/windtunnel/windtunnel/internal/target/lab"
)

// linked is TwoNodes' topology with a link between the nodes.
func linked(l model.Link) model.Topology {
	topology := labtest.Topology(1)
	l.A, l.B = "node-0", "node-1"
	topology.Links = []model.Link{l}
	return topology
}

// states are what the site has measured; both directions.
func states(t *testing.T, site model.Site) []model.LinkState {
	t.Helper()
	s, ok := site.(model.LinkedSite)
	if !ok || len(s.Links()) != 2 {
		t.Fatalf("%T has no two measured directions", site)
	}
	for _, l := range s.Links() {
		if sys.Required("netem") && l.Means != "netem" {
			t.Errorf("$WINDTUNNEL_REQUIRE says that links must be netem's, not a %s's", l.Means)
		}
	}
	return s.Links()
}

// room is how far a median may be from what was asked: half a millisecond, and
// where the host is busy what the delay line itself says that it was late.
func room(o model.LinkObserved) time.Duration { return 500*time.Microsecond + 2*o.Lateness }

func TestLinkDelay(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{time.Millisecond, 40 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			site := labtest.Site(t, linked(model.Link{Delay: delay}))
			for _, s := range states(t, site) {
				o := s.Observed
				t.Logf("%s: %+v", s.Means, o)
				if o.P50 < delay || o.P50 > delay+room(o) {
					t.Errorf("p50 is %s", o.P50)
				}
				if o.Lost+o.Reordered+o.Duplicated != 0 {
					t.Errorf("%+v", o)
				}
			}
			if got := ask(t, site, "client-0", listen(t, site, "server-0", "through the link")); got != "through the link" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// probe sends many datagrams from node-0 to node-1.
func probeNodes(t *testing.T, site model.Site, p wan.Probe) ([]wan.Arrival, wan.Summary) {
	t.Helper()
	p.From, p.To = lab.NetnsOf(t, site, "node-0"), lab.NetnsOf(t, site, "node-1")
	p.Addr = netip.MustParseAddr("172.18.0.3")
	got, err := p.Send(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got, wan.Summarise(p.Count, got)
}

// within says whether n of count is what chance gives a share, but for one case
// in millions.
func within(n, count int, share float64) bool {
	const sigmas = 5
	mean := share * float64(count)
	return math.Abs(float64(n)-mean) <= sigmas*math.Sqrt(mean*(1-share))+1
}

func TestLinkLossAndDuplicates(t *testing.T) {
	t.Parallel()
	const count = 4000
	site := labtest.Site(t, linked(model.Link{Delay: 5 * time.Millisecond, Loss: 0.02, Duplicate: 0.05}))
	_, got := probeNodes(t, site, wan.Probe{Count: count, Gap: 200 * time.Microsecond, Bytes: 200, Patience: 500 * time.Millisecond})
	t.Logf("%+v", got)
	if !within(got.Lost, count, 0.02) {
		t.Errorf("%d of %d lost, asked 2 %%", got.Lost, count)
	}
	if !within(got.Duplicated, count, 0.05*0.98) {
		t.Errorf("%d of %d doubled, asked 5 %%", got.Duplicated, count)
	}
	if got.Reordered != 0 {
		t.Errorf("%d reordered", got.Reordered)
	}
}

func TestLinkJitter(t *testing.T) {
	t.Parallel()
	const count, delay, jitter = 2000, 20 * time.Millisecond, 5 * time.Millisecond
	for _, reorder := range []bool{false, true} {
		t.Run(fmt.Sprintf("reorder %t", reorder), func(t *testing.T) {
			t.Parallel()
			site := labtest.Site(t, linked(model.Link{Delay: delay, Jitter: jitter, Reorder: reorder}))
			_, got := probeNodes(t, site, wan.Probe{Count: count, Gap: 500 * time.Microsecond, Bytes: 64, Patience: 500 * time.Millisecond})
			t.Logf("%+v", got)
			if got.Lost != 0 || got.Duplicated != 0 {
				t.Errorf("%+v", got)
			}
			if reorder != (got.Reordered > 0) {
				t.Errorf("%d reordered", got.Reordered)
			}
			if got.P1 < delay-jitter {
				t.Errorf("p1 is %s", got.P1)
			}
			// In order, those that are early wait for those that are late.
			if !reorder && got.Mean < delay+jitter/5 {
				t.Errorf("the mean is %s: nobody waited", got.Mean)
			}
			if reorder && (got.P1 > delay-jitter*8/10 || got.P99 < delay+jitter*8/10) {
				t.Errorf("%s to %s is not spread over 15 to 25 ms", got.P1, got.P99)
			}
		})
	}
}

func TestLinkReorderShare(t *testing.T) {
	t.Parallel()
	const count = 2000
	site := labtest.Site(t, linked(model.Link{Delay: 10 * time.Millisecond, ReorderShare: 0.1}))
	arrivals, got := probeNodes(t, site, wan.Probe{Count: count, Gap: 500 * time.Microsecond, Bytes: 64, Patience: 500 * time.Millisecond})
	early := 0
	for _, a := range arrivals {
		if a.Delay < 5*time.Millisecond {
			early++
		}
	}
	if early < count/20 || early > count/5 || got.Lost != 0 || got.Reordered == 0 {
		t.Errorf("%d of %d came early, asked 10 %%; %+v", early, count, got)
	}
}

// What is offered is far more than the link carries: what comes is its rate.
func TestLinkRate(t *testing.T) {
	t.Parallel()
	const rate = 20_000_000
	site := labtest.Site(t, linked(model.Link{Delay: 5 * time.Millisecond, Rate: rate}))
	// Who emulates the link stalls where the host does: a stall is no defect of it.
	var why string
	for range 3 {
		if why = carries(t, site, rate); why == "" {
			return
		}
	}
	t.Error(why)
}

// carries says what is wrong with the rate of an overloaded link.
func carries(t *testing.T, site model.Site, rate float64) string {
	t.Helper()
	const size, gap, count = 1400, 250 * time.Microsecond, 6000
	arrivals, got := probeNodes(t, site, wan.Probe{Count: count, Gap: gap, Bytes: size, Patience: time.Second})
	const headers = 14 + 20 + 8
	middle := arrivals[len(arrivals)/4 : len(arrivals)*3/4] // when it is full
	span := time.Duration(middle[len(middle)-1].At - middle[0].At)
	bits := float64((len(middle)-1)*(size+headers)) * 8
	t.Logf("%+v; %d came in %s", got, len(arrivals), span)
	if carried := bits / span.Seconds(); carried < 0.9*rate || carried > 1.1*rate {
		return fmt.Sprintf("it carried %.1f Mbit/s, asked %.1f", carried/1e6, rate/1e6)
	}
	if got.P99 > 5*time.Millisecond+100*time.Millisecond+50*time.Millisecond {
		return fmt.Sprintf("the buffer holds for %s", got.P99)
	}
	if got.Lost == 0 {
		return "nothing was dropped"
	}
	return ""
}

func TestLinkMTU(t *testing.T) {
	t.Parallel()
	site := labtest.Site(t, linked(model.Link{Delay: time.Millisecond, MTU: 1300}))
	text := strings.Repeat("large segments must shrink; ", 5000)
	if got := ask(t, site, "client-0", listen(t, site, "server-0", text)); got != text {
		t.Errorf("got %d bytes of %d", len(got), len(text))
	}
	labtest.In(t, site, "node-0", func() error {
		c, err := net.Dial("udp", "172.18.0.3:9")
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // nothing to lose
		mtu, err := lab.PathMTU(c)
		if err == nil && mtu != 1300 {
			err = fmt.Errorf("the path's MTU is %d", mtu)
		}
		return err
	})
}

func TestBulkThroughLink(t *testing.T) {
	t.Parallel()
	site := labtest.Site(t, linked(model.Link{Delay: 40 * time.Millisecond}))
	text := strings.Repeat("0123456789abcdef", 1<<20)
	to := listen(t, site, "server-0", text)
	began := time.Now()
	var got int64
	labtest.In(t, site, "client-0", func() error {
		c, err := net.Dial("tcp", to.String())
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // only read
		got, err = io.Copy(io.Discard, c)
		return err
	})
	took := time.Since(began)
	t.Logf("%d bytes in %s: %.2f Gbit/s", got, took, float64(got)*8/took.Seconds()/1e9)
	if got != int64(len(text)) || took > 15*time.Second {
		t.Errorf("%d bytes of %d in %s", got, len(text), took)
	}
}

// Whoever kills the delay line ends the links, and everybody is told.
func TestDelayLineKilled(t *testing.T) {
	t.Parallel()
	target := labtest.Need(t)
	site, err := target.Provision(t.Context(), linked(model.Link{Delay: time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	if !lab.KillDelayLine(t, site) {
		t.Skip("netem emulates links here")
	}
	to := listen(t, site, "server-0", "nobody hears this")
	labtest.In(t, site, "client-0", func() error {
		if c, err := net.DialTimeout("tcp", to.String(), 300*time.Millisecond); err == nil {
			return errors.Join(errors.New("traffic crosses a link that nobody emulates"), c.Close())
		}
		return nil
	})
	sampled, ok := site.(model.SampledSite)
	if !ok {
		t.Fatal("the site has no samplers")
	}
	var sampling error
	for _, s := range sampled.Samplers() {
		if _, err := s.Sample(t.Context(), nil); err != nil {
			sampling = err
		}
	}
	if sampling == nil || !strings.Contains(sampling.Error(), "emulated links are down") {
		t.Errorf("sampling: %v", sampling)
	}
	if err := site.Close(context.WithoutCancel(t.Context())); err == nil || !strings.Contains(err.Error(), "delay line") {
		t.Errorf("closing: %v", err)
	}
}

// Pods of different networks reach each other's nodes only.
func TestSeparateNetworks(t *testing.T) {
	t.Parallel()
	topology := labtest.Topology(1)
	nodes := topology.Regions[0].Clusters[0].Nodes
	topology.Regions[0].Clusters = []model.Cluster{{Name: "c0", Network: "n0", Nodes: nodes[:1]}, {Name: "c1", Network: "n1", Nodes: nodes[1:]}}
	site := labtest.Site(t, topology)
	to := listen(t, site, "server-0", "not for you")
	labtest.In(t, site, "client-0", func() error {
		if c, err := net.DialTimeout("tcp", to.String(), 300*time.Millisecond); err == nil {
			return errors.Join(errors.New("a pod of another network was reached"), c.Close())
		}
		return nil
	})
	// A gateway announces its node's address.
	var l net.Listener
	labtest.In(t, site, "node-1", func() error {
		var err error
		l, err = net.Listen("tcp", "172.18.0.3:15443")
		return err
	})
	defer l.Close() //nolint:errcheck // the test is over
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.WriteString(c, c.RemoteAddr().(*net.TCPAddr).IP.String()) //nolint:forcetypeassert,errcheck // it is TCP
			_ = c.Close()
		}
	}()
	if got := ask(t, site, "client-0", netip.MustParseAddrPort("172.18.0.3:15443")); got != "172.18.0.2" {
		t.Errorf("the gateway was reached from %q, not from the client's node", got)
	}
}

// Three places, of which one is nearer: each pair has its own link.
func TestThreeRegions(t *testing.T) {
	t.Parallel()
	pod := func(name, role string) []model.PodSpec { return []model.PodSpec{{Name: name, Role: role}} }
	place := func(name string, pods []model.PodSpec) model.Region {
		return model.Region{Name: name, Clusters: []model.Cluster{{Name: "c-" + name, Nodes: []model.Node{{Name: "n-" + name, Pods: pods}}}}}
	}
	topology := model.Topology{
		Regions: []model.Region{place("x", pod("client-0", "client")), place("y", pod("server-0", "server")), place("z", pod("server-1", "server"))},
		Links:   []model.Link{{A: "x", B: "y", Delay: 10 * time.Millisecond}, {A: "z", B: "x", Delay: 30 * time.Millisecond}},
	}
	site := labtest.Site(t, topology)
	for pod, least := range map[string]time.Duration{"server-0": 20 * time.Millisecond, "server-1": 60 * time.Millisecond} {
		to := listen(t, site, pod, pod)
		began := time.Now()
		labtest.In(t, site, "client-0", func() error {
			c, err := net.DialTimeout("tcp", to.String(), 2*time.Second)
			if err != nil {
				return err
			}
			return c.Close()
		})
		if took := time.Since(began); took < least || took > least+30*time.Millisecond {
			t.Errorf("connecting to %s took %s", pod, took)
		}
	}
	if s, ok := site.(model.LinkedSite); !ok || len(s.Links()) != 4 {
		t.Errorf("no four directions were measured: %T", site)
	}
}
