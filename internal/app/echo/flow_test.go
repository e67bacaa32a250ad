package echo

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/flow"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/load/tcp"
	"github.com/windtunnel/windtunnel/internal/load/udp"
	"github.com/windtunnel/windtunnel/internal/model"
)

// loading runs a load for 300 ms after a warm-up of 100 ms.
func loading(t *testing.T, plugin func([]byte) (load.Protocol, error), config, to string, edit func(*load.Job)) *model.LoadResult {
	t.Helper()
	p, err := plugin([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	j := load.Job{
		Load:     model.Load{Name: "test", Arrival: model.ArrivalClosed, Connections: 1, Duration: 300 * time.Millisecond, Timeout: 5 * time.Second},
		Protocol: p, Targets: []netip.AddrPort{netip.MustParseAddrPort(to)}, Warmup: 100 * time.Millisecond,
	}
	if edit != nil {
		edit(&j)
	}
	r, w, err := load.Run(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if r.Elapsed != w.Duration() || r.Due != r.Succeeded+r.FailedTotal()+r.Unsent || r.Clock == "" {
		t.Errorf("elapsed %s of %s, due %d, succeeded %d, failed %v, unsent %d, clock %q", r.Elapsed, w.Duration(), r.Due, r.Succeeded, r.Failed, r.Unsent, r.Clock)
	}
	return r
}

func newTCP(c []byte) (load.Protocol, error) { return tcp.New(c) }
func newUDP(c []byte) (load.Protocol, error) { return udp.New(c) }

func TestExchanges(t *testing.T) { //nolint:paralleltest // loads at a time share two processors
	to := serving(t)
	for config, plugin := range map[string]func([]byte) (load.Protocol, error){
		`{}`:                                   newTCP,
		`{"request": 200000, "response": 1}`:   newTCP,
		`{"request": 1, "response": 300000}`:   newTCP,
		`{"mode": "connect", "response": 100}`: newTCP,
		`{"request": 1000, "response": 64}`:    newUDP,
	} {
		r := loading(t, plugin, config, to, nil)
		if r.Succeeded == 0 || r.FailedTotal() > 0 || r.Responders["me"] != r.Succeeded || r.PayloadChanged > 0 {
			t.Errorf("%s: %d succeeded, failed %v, answered by %v", config, r.Succeeded, r.Failed, r.Responders)
		}
	}
}

// In an open loop, too, every request pays for its connection.
func TestConnectIsPartOfTheRequest(t *testing.T) { //nolint:paralleltest // as above
	r := loading(t, newTCP, `{"mode": "connect"}`, serving(t), func(j *load.Job) {
		j.Load.Arrival, j.Load.Rate = model.ArrivalOpen, 100
	})
	if r.Succeeded+r.Unsent != 30 || r.Sockets != 10+r.Succeeded {
		t.Errorf("%d succeeded of 30, over %d sockets of 40 with the warm-up; failed %v", r.Succeeded, r.Sockets, r.Failed)
	}
}

func TestStreams(t *testing.T) { //nolint:paralleltest // as above
	to := serving(t)
	for config, directions := range map[string][2]bool{
		`{"mode": "stream"}`:                                                             {true, false},
		`{"mode": "stream", "direction": "down"}`:                                        {false, true},
		`{"mode": "stream", "direction": "both", "zerocopy": true}`:                      {true, true},
		`{"mode": "stream", "direction": "both", "skip_receive_copy": true, "block": 1}`: {true, true},
	} {
		r := loading(t, newTCP, config, to, func(j *load.Job) { j.Load.Connections = 2 })
		s := r.Stream
		if r.FailedTotal() > 0 || s.Up > 0 != directions[0] || s.Down > 0 != directions[1] || s.MSS == 0 || s.Congestion == "" || len(s.Intervals) != 1 ||
			s.Intervals[0].Up != s.Up || s.Intervals[0].Down != s.Down || r.Responders["me"] != r.Due || r.GeneratorCPU <= 0 {
			t.Errorf("%s: %+v, failed %v, by %v", config, s, r.Failed, r.Responders)
		}
	}
}

// Paced streams carry what was asked for: 8 Mbit/s are 300 kB in 300 ms.
func TestPacedStream(t *testing.T) { //nolint:paralleltest // as above
	for _, direction := range []string{"up", "down"} {
		r := loading(t, newTCP, `{"mode": "stream", "bitrate": 8e6, "block": 1000, "direction": "`+direction+`"}`, serving(t), func(j *load.Job) { j.Load.Duration = time.Second })
		// On a busy host the server may begin late. Without a pace there would be gigabytes.
		if got := r.Stream.Up + r.Stream.Down; got < 50_000 || got > 1_300_000 {
			t.Errorf("%s: %d bytes, not about 1,000,000", direction, got)
		}
	}
}

func TestFinish(t *testing.T) { //nolint:paralleltest // as above
	finish := make(chan struct{})
	time.AfterFunc(300*time.Millisecond, func() { close(finish) })
	r := loading(t, newTCP, `{"mode": "stream"}`, serving(t), func(j *load.Job) { j.Load.Duration, j.Finish = time.Hour, finish })
	if r.Elapsed > 10*time.Second || r.Stream.Up == 0 {
		t.Errorf("%s, %d bytes", r.Elapsed, r.Stream.Up)
	}
}

// relay passes datagrams on; of each ten of a flow it drops number 3, sends
// number 5 twice and number 7 after number 8.
func relay(t *testing.T, to string) string {
	t.Helper()
	in, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	out, err := (&net.Dialer{}).DialContext(t.Context(), "udp", to)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var from net.Addr
	var done sync.WaitGroup
	done.Go(func() {
		var held []byte
		for b := make([]byte, 65536); ; {
			n, who, err := in.ReadFrom(b)
			if err != nil {
				return
			}
			mu.Lock()
			from = who
			mu.Unlock()
			d := b[:n]
			k, _, _, _ := flow.ParseData(d)
			if head, bad := flow.ParseDatagram(d); bad != nil || head.Kind != flow.Data {
				k = 0
			}
			switch k % 10 {
			case 3:
			case 5:
				_, _ = out.Write(d)
				_, _ = out.Write(d)
			case 7:
				held = append([]byte(nil), d...)
			case 8:
				_, _ = out.Write(d)
				_, _ = out.Write(held)
			default:
				_, _ = out.Write(d)
			}
		}
	})
	done.Go(func() {
		for b := make([]byte, 65536); ; {
			n, err := out.Read(b)
			if err != nil {
				return
			}
			mu.Lock()
			_, _ = in.WriteTo(b[:n], from)
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = in.Close()
		_ = out.Close()
		done.Wait()
	})
	return in.LocalAddr().String()
}

// TestLossyPath compares the result with what the path has done, exactly. What
// is due while the host stalls at the end is not sent, so it is not always 300.
func TestLossyPath(t *testing.T) { //nolint:paralleltest // as above
	const warmUp = 100
	r := loading(t, newUDP, `{"mode": "flow", "size": 200}`, relay(t, serving(t)), func(j *load.Job) {
		j.Load.Arrival, j.Load.Rate = model.ArrivalOpen, 1000
	})
	d := r.Datagrams
	type counts struct{ Sent, Received, Lost, Reordered, Duplicated, FlowSent, FlowReceived uint64 }
	var want counts
	for want.FlowSent = range uint64(400) - r.Unsent {
		var lost, late, twice uint64
		switch want.FlowSent % 10 {
		case 3:
			lost = 1
		case 5:
			twice = 1
		case 7:
			late = 1
			if want.FlowSent+1 == 400-r.Unsent { // none follows that would take it along
				lost, late = 1, 0
			}
		}
		want.FlowReceived += 1 - lost + twice
		if want.FlowSent >= warmUp {
			want.Sent++
			want.Lost, want.Reordered, want.Duplicated = want.Lost+lost, want.Reordered+late, want.Duplicated+twice
			want.Received += 1 - lost + twice
		}
	}
	want.FlowSent++
	if diff := cmp.Diff(want, counts{d.Sent, d.Received, d.Lost, d.Reordered, d.Duplicated, d.FlowSent, d.FlowReceived}); diff != "" {
		t.Errorf("%d unsent; (-path +counted):\n%s", r.Unsent, diff)
	}
	if d.ReceiveBuffer == 0 || d.Jitter == 0 || d.Size != 200 || len(d.Intervals) != 1 || r.Responders["me"] != d.Sent-d.Lost || r.Failed[model.CauseTimeout] != d.Lost {
		t.Errorf("%+v, failed %v, by %v", d, r.Failed, r.Responders)
	}
	// Interface counters are of what came here, from the relay: Begin and the
	// questions are on it, too, and other tests' packets on loopback.
	if d.Interface != "lo" || d.InterfacePackets < d.FlowReceived {
		t.Errorf("%d packets on %q", d.InterfacePackets, d.Interface)
	}
}

func TestOffload(t *testing.T) { //nolint:paralleltest // as above
	r := loading(t, newUDP, `{"mode": "flow", "size": 1000, "gso": true, "bitrate": 80e6}`, serving(t), nil)
	// A busy machine may leave some unsent at the end, and drop some at the receiver's socket.
	if d := r.Datagrams; !d.Offload || d.Sent+r.Unsent != 3000 || d.Received+d.Lost != d.Sent || d.Received == 0 {
		t.Errorf("unsent %d, %+v", r.Unsent, d)
	}
}

// What is due together goes together, each datagram as itself and in its own
// interval. A busy machine may leave much unsent: it is tried until some are sent, and
// the counts must fit in any case.
func TestGathered(t *testing.T) { //nolint:paralleltest // as above
	const wait, tries, some = 10 * time.Millisecond, 20, 500
	for range tries {
		r := loading(t, newUDP, `{"mode": "flow", "size": 500}`, serving(t), func(j *load.Job) {
			j.Load.Rate, j.Load.Coalesce = 10_000, wait
		})
		d := r.Datagrams
		var sum uint64
		for _, in := range d.Intervals {
			sum += in.Sent
		}
		if d.Sent+r.Unsent != r.Due || sum != d.Sent || d.Lost != d.Sent-d.Received || d.Reordered+d.Duplicated != 0 || d.Calls > d.Sent {
			t.Fatalf("due %d, unsent %d, %d in the intervals, %+v", r.Due, r.Unsent, sum, d)
		}
		if d.Sent < some {
			continue
		}
		if at := float64(d.Sent) / float64(d.Calls); at < 50 { // 100 are due in that time; being late only makes it more
			t.Errorf("%d datagrams by %d calls", d.Sent, d.Calls)
		}
		if half := r.Lateness.Quantile(0.5); half < wait/8 {
			t.Errorf("half of the datagrams were at most %s late, though all waited for those after them", half)
		}
		return
	}
	t.Errorf("in %d tries not even %d of 3000 datagrams could be sent", tries, some)
}

func TestNobodyReceives(t *testing.T) { //nolint:paralleltest // as above
	r := loading(t, newUDP, `{"mode": "flow", "size": 100}`, "127.0.0.1:1", func(j *load.Job) {
		j.Load.Arrival, j.Load.Rate, j.Load.Timeout = model.ArrivalOpen, 100, 50*time.Millisecond
	})
	if r.Due != 30 || r.Failed[model.CauseRefused]+r.Unsent != 30 || r.Unsent == 30 || r.BytesSent != 0 {
		t.Errorf("due %d, failed %v, sent %d bytes", r.Due, r.Failed, r.BytesSent)
	}
}

// TestUDPIsNoAmplifier sends what must not be answered, and then what must be:
// the first answer is to that.
func TestUDPIsNoAmplifier(t *testing.T) {
	t.Parallel()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "udp", serving(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // only a test's
	datagram := func(kind flow.DatagramKind, size int) []byte {
		b := make([]byte, max(size, 16))
		flow.Datagram{Kind: kind, Number: 1}.Put(b)
		return b[:size]
	}
	greedy := datagram(flow.Request, 64)
	flow.PutResponseSize(greedy, 1000)
	modest := datagram(flow.Request, 100)
	flow.PutResponseSize(modest, 64)
	binary.BigEndian.PutUint64(modest[8:], 77)
	for _, b := range [][]byte{
		{},
		[]byte("hello"), greedy, datagram(flow.Request, 20), datagram(flow.Begin, flow.BeginSize-1), datagram(flow.Ask, flow.AccountSize),
		datagram(flow.Data, 100), datagram(flow.Answer, 100), datagram(flow.Account, 1000), datagram(99, 1000), modest,
	} {
		if _, err = c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	b := make([]byte, 2000)
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	n, err := c.Read(b)
	if number, id, _, parsed := flow.ParseAnswer(b[:n]); err != nil || parsed != nil || number != 77 || string(id) != "me" || n != 64 {
		t.Errorf("%d bytes: answer to %d by %q, %v, %v", n, number, id, parsed, err)
	}
}

func TestFlowsAreBounded(t *testing.T) {
	t.Parallel()
	p, err := listenUDP(context.WithoutCancel(t.Context()), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() //nolint:errcheck // only a test's
	d := &datagrams{server: &server{clock: flow.NewClock()}, packets: p, flows: map[uint64]*datagramFlow{}}
	b := make([]byte, flow.BeginSize)
	for id := range uint64(3 * maxFlows) {
		flow.PutBegin(b, id, 1<<31)
		d.packet(&flow.Packet{Data: b})
	}
	if len(d.flows) != maxFlows {
		t.Errorf("%d flows", len(d.flows))
	}
	for _, f := range d.flows {
		f.last -= 2 * silent
	}
	flow.PutBegin(b, 9999, 1)
	d.packet(&flow.Packet{Data: b})
	if len(d.flows) != maxFlows || d.flows[9999] == nil {
		t.Errorf("%d flows; the new one has no room", len(d.flows))
	}
}
