package echo

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/flow"
)

// maxFlows bounds the flows of datagrams that are remembered; the one that has
// been silent for longest makes room for a new one, if it has been so for a while.
const maxFlows = 64

// silent is how long that is, in nanoseconds.
const silent = int64(10e9)

func listenUDP(ctx context.Context, at net.Addr) (*flow.Packets, error) {
	var lc net.ListenConfig
	c, err := lc.ListenPacket(ctx, "udp", at.String())
	if err != nil {
		return nil, fmt.Errorf("echo: listening for datagrams on %s: %w", at, err)
	}
	udp, ok := c.(*net.UDPConn)
	if !ok {
		return nil, fmt.Errorf("echo: listening for datagrams on %s: got a %T", at, c)
	}
	p, err := flow.NewPackets(udp)
	if err != nil {
		return nil, fmt.Errorf("echo: %w", err)
	}
	return p, nil
}

// datagrams answers datagrams until the context ends. Only what is of the flow
// protocol is answered, and never with more bytes than it had.
func (s *server) datagrams(ctx context.Context, p *flow.Packets) {
	stop := context.AfterFunc(ctx, p.Stop)
	defer p.Close() //nolint:errcheck // nothing waits in it
	defer stop()
	d := &datagrams{server: s, packets: p, flows: make(map[uint64]*datagramFlow, maxFlows)}
	for ctx.Err() == nil {
		if p.Receive(d.packet) != nil {
			pause(ctx)
		}
	}
}

type datagrams struct {
	*server

	packets *flow.Packets
	flows   map[uint64]*datagramFlow
}

// datagramFlow is what is known of one flow.
type datagramFlow struct {
	from    flow.Addr
	counter *flow.Counter
	last    int64 // when something of it came
	state   flow.State
	drops   uint32 // of the socket, when the flow began
	packets uint64 // of the interface, likewise, and what it dropped
	dropped uint64
}

func (d *datagrams) packet(p *flow.Packet) {
	head, err := flow.ParseDatagram(p.Data)
	if err != nil {
		return
	}
	switch head.Kind {
	case flow.Request:
		if out := flow.ToAnswer(p.Data, d.identity); out != nil {
			d.packets.Answer(&p.From, out)
		}
	case flow.Data:
		d.count(head.Number, p)
	case flow.Begin:
		d.begin(head.Number, p)
	case flow.Ask:
		d.account(head.Number, p)
	default: // answers are not for servers
	}
}

func (d *datagrams) count(id uint64, p *flow.Packet) {
	f := d.flows[id]
	if f == nil || f.from != p.From {
		return
	}
	k, sent, interval, ok := flow.ParseData(p.Data)
	if !ok {
		return
	}
	f.last = d.clock.Now()
	came := p.Came
	if came == 0 {
		came, f.state.KernelStamps = f.last, false
	}
	f.counter.Add(k, sent, came, interval, len(p.Data))
}

// begin makes room for a flow. A Begin that comes again, because its answer was
// lost, changes nothing.
func (d *datagrams) begin(id uint64, p *flow.Packet) {
	if len(p.Data) < flow.BeginSize {
		return
	}
	now := d.clock.Now()
	f := d.flows[id]
	switch {
	case f == nil && d.makeRoom(now):
		f = &datagramFlow{from: p.From, last: now, counter: flow.NewCounter(flow.IntervalsOf(p.Data))}
		f.state = flow.State{Identity: d.identity, KernelStamps: true}
		f.drops, _ = d.packets.Drops()         // 0 where the kernel does not say
		f.state.Buffer, _ = d.packets.Buffer() // likewise
		if at, err := net.InterfaceByIndex(p.Device); err == nil {
			f.state.Interface = at.Name
		}
		f.packets, f.dropped, _ = interfaceCounters(f.state.Interface)
		d.flows[id] = f
	case f == nil || f.from != p.From:
		return
	}
	out := p.Data[:flow.BeginSize]
	flow.Datagram{Kind: flow.Begun, Number: id}.Put(out)
	d.packets.Answer(&p.From, out)
}

func (d *datagrams) makeRoom(now int64) bool {
	if len(d.flows) < maxFlows {
		return true
	}
	oldest, since := uint64(0), now-silent
	found := false
	for id, f := range d.flows {
		if f.last < since {
			oldest, since, found = id, f.last, true
		}
	}
	delete(d.flows, oldest)
	return found
}

func (d *datagrams) account(id uint64, p *flow.Packet) {
	f := d.flows[id]
	if f == nil || f.from != p.From || len(p.Data) < flow.AccountSize {
		return
	}
	f.last = d.clock.Now()
	f.state.Received = f.counter.Received
	if drops, err := d.packets.Drops(); err == nil {
		f.state.SocketDrops = uint64(drops - f.drops)
	}
	if packets, dropped, ok := interfaceCounters(f.state.Interface); ok {
		f.state.InterfacePackets, f.state.InterfaceDrops = packets-f.packets, dropped-f.dropped
	}
	first := flow.AskedFor(p.Data)
	out := p.Data[:flow.AccountSize]
	flow.PutAccount(out, id, &f.state, first, f.counter.Intervals)
	d.packets.Answer(&p.From, out)
}

// interfaceCounters are what an interface of this thread's network has received
// and dropped.
func interfaceCounters(name string) (packets, dropped uint64, ok bool) {
	const prefix = 2 // lines of headings
	text, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil || name == "" {
		return 0, 0, false
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		device, counters, found := bytes.Cut(line, []byte(":"))
		if i < prefix || !found || string(bytes.TrimSpace(device)) != name {
			continue
		}
		fields := bytes.Fields(counters) // bytes packets errs drop ...
		if len(fields) < 4 {
			return 0, 0, false
		}
		packets, err1 := strconv.ParseUint(string(fields[1]), 10, 64)
		dropped, err2 := strconv.ParseUint(string(fields[3]), 10, 64)
		return packets, dropped, err1 == nil && err2 == nil
	}
	return 0, 0, false
}
