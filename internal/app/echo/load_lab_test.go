package echo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/agent"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/load/icmp"
	"github.com/windtunnel/windtunnel/internal/load/tcp"
	"github.com/windtunnel/windtunnel/internal/load/udp"
	"github.com/windtunnel/windtunnel/internal/model"
)

func protocols() agent.Protocols {
	return agent.Protocols{tcp.Plugin(), udp.Plugin(), icmp.Plugin()}
}

// pipe is an agent's standard input and output.
type pipe struct{}

func (pipe) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (pipe) Write(b []byte) (int, error) { return os.Stdout.Write(b) }

// agentCommand is what the program does as `windtunnel agent`.
func agentCommand([]string) int {
	if agent.Serve(context.Background(), pipe{}, protocols()) != nil {
		return 1
	}
	return 0
}

// bench is a site with an echo server and an agent in the client's pod.
type bench struct {
	site model.Site
	gen  *agent.Client
	to   netip.AddrPort
}

func newBench(t *testing.T) bench {
	t.Helper()
	site := labtest.Site(t, labtest.Topology(1))
	endpoints, err := (App{}).Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	process, err := labtest.Pod(t, site, "client-0").Start(t.Context(), model.Process{
		Name: "agent", Component: model.ComponentGenerator, Command: []string{"{self}", "agent"}, Piped: true, Exclusive: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return bench{site, agent.Dial(process.Stream()), endpoints.Backends[0].Addr}
}

// load gates and loads, as a trial does.
func (b *bench) load(t *testing.T, protocol, config string, rate float64) *model.LoadResult {
	t.Helper()
	l := model.Load{
		Name: "test", Protocol: protocol, Config: json.RawMessage(config), Arrival: model.ArrivalClosed, Rate: rate, Connections: 1,
		Duration: 500 * time.Millisecond, Timeout: 3 * time.Second,
	}
	if rate > 0 {
		l.Arrival = model.ArrivalOpen
	}
	targets := []netip.AddrPort{b.to}
	ready, err := b.gen.Gate(t.Context(), agent.GateJob{Load: l, Targets: targets, Streak: 5, Timeout: 10 * time.Second, Identities: []string{"server-0"}})
	if err != nil || !ready.Passed {
		t.Fatalf("the gate: %+v, %v", ready, err)
	}
	r, err := b.gen.Load(t.Context(), agent.LoadJob{Load: l, Targets: targets, Warmup: 100 * time.Millisecond, Payload: ready.Payload}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLoadsInTheLab(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	b := newBench(t)
	for _, tt := range []struct {
		protocol, config string
		rate             float64
	}{
		{"tcp", `{}`, 0},
		{"tcp", `{"mode": "connect"}`, 0},
		{"tcp", `{"mode": "stream"}`, 0},
		{"tcp", `{"mode": "stream", "direction": "down"}`, 0},
		{"udp", `{}`, 0},
		{"icmp", `{}`, 0},
		{"icmp", `{"size": 1000}`, 200},
	} {
		r := b.load(t, tt.protocol, tt.config, tt.rate)
		if r.Succeeded == 0 || r.FailedTotal() > 0 || r.PayloadChanged > 0 {
			t.Errorf("%s %s: %d succeeded, failed %v, %d changed", tt.protocol, tt.config, r.Succeeded, r.Failed, r.PayloadChanged)
		}
		if s := r.Stream; s != nil && (s.Up+s.Down == 0 || s.MSS > 1460 || s.MSS < 1000) {
			t.Errorf("%s %s: %+v", tt.protocol, tt.config, s)
		}
	}
}

// rule drops every tenth large datagram that a node forwards.
const rule = `table ip lossy {
	chain forward {
		type filter hook forward priority 0
		udp dport 8080 udp length > 1000 numgen inc mod 10 == 0 counter drop
	}
}`

// TestLossIsWhatTheRuleDropped compares the loss with the counters of the rule
// that made it and of the receiver's interface.
func TestLossIsWhatTheRuleDropped(t *testing.T) { //nolint:paralleltest // as above
	b := newBench(t)
	nft(t, b.site, rule)
	r := b.load(t, "udp", `{"mode": "flow"}`, 4000)
	listing := nft(t, b.site, "list", "ruleset")
	found := regexp.MustCompile(`counter packets (\d+)`).FindStringSubmatch(listing)
	if found == nil {
		t.Fatalf("no counter in %s", listing)
	}
	dropped, err := strconv.ParseUint(found[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Datagrams
	if d.Size < 1000 || d.Size > 1472 || d.Sent+r.Unsent != 2000 || d.Sent < 1000 {
		t.Errorf("%d datagrams of %d bytes, %d in all", d.Sent, d.Size, d.FlowSent)
	}
	if lost := d.FlowSent - d.FlowReceived; lost != dropped || dropped != (d.FlowSent+9)/10 || d.Lost > lost || d.SocketDrops != 0 {
		t.Errorf("%d lost, %d in the window, %d at the socket; the rule dropped %d", lost, d.Lost, d.SocketDrops, dropped)
	}
	// Begin, and the questions about what has come: one or two.
	if extra := d.InterfacePackets - d.FlowReceived; d.Interface != "eth0" || extra < 2 || extra > 4 || d.InterfaceDrops != 0 {
		t.Errorf("%s counted %d packets and %d drops; %d of the flow were received", d.Interface, d.InterfacePackets, d.InterfaceDrops, d.FlowReceived)
	}
}

// nft runs the program in the server's node.
func nft(t *testing.T, site model.Site, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("nft")
	if err != nil {
		t.Skip("needs the nft program")
	}
	var out []byte
	labtest.In(t, site, "node-1", func() error {
		out, err = exec.CommandContext(t.Context(), path, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
	return string(out)
}
