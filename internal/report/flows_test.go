package report_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
)

// buildFlows is a study of a bulk transfer and of datagrams at a fixed rate.
func buildFlows(t *testing.T) *report.Model {
	t.Helper()
	s := testStudy(10)
	s.Question = "What does a tunnel cost in goodput?"
	s.Variants = []model.Variant{{Name: "direct"}, {Name: "wireguard", Stack: []model.PluginRef{{Kind: "wireguard"}}}, {Name: "control", Control: true}}
	s.Loads = []model.Load{
		{Name: "bulk", Protocol: "tcp", Arrival: model.ArrivalClosed, Connections: 4, Duration: 10 * time.Second, From: "client", To: "server"},
		{Name: "packets", Protocol: "udp", Arrival: model.ArrivalOpen, Rate: 25_000, Connections: 1, Duration: 10 * time.Second, From: "client", To: "server"},
	}
	s.Design.Primary = []string{"response.p50", "success", "cpu.total", "goodput", "loss", "cpu.gbit.total"}
	s.Gates = []model.Gate{
		{Text: "wireguard.bulk.goodput > 5Gbit/s", Variant: "wireguard", Load: "bulk", Metric: "goodput", Op: ">", Value: 5e9},
		{Text: "wireguard.loss < 0.1%", Variant: "wireguard", Load: "packets", Metric: "loss", Op: "<", Value: 0.001},
	}
	return buildStudy(t, s, flowing)
}

// flowing replaces an outcome's requests by a flow.
func flowing(o *model.Outcome) {
	const second = int64(time.Second)
	rng := rand.New(rand.NewPCG(o.Trial.Seed, 11))
	speed := 20e9 * (1 + 0.004*rng.NormFloat64())
	if o.Trial.Variant == "wireguard" {
		speed *= 0.31
	}
	o.Window = model.Window{Start: second, End: 11 * second}
	for i := range o.Samples {
		o.Samples[i].At = []int64{second, 11 * second}
		o.Samples[i].Values[1] = 1 + 6*(1+0.01*rng.NormFloat64())
	}
	l := &model.LoadResult{Arrival: model.ArrivalClosed, Connections: 4, Elapsed: 10 * time.Second, Workers: 4, GeneratorCPU: 9 * time.Second, Clock: "CLOCK_MONOTONIC"}
	if o.Trial.Load == "bulk" {
		l.Stream = streams(speed, rng)
	} else {
		l.Arrival, l.Rate, l.Workers = model.ArrivalOpen, 25_000, 1
		l.Datagrams = packets(o.Trial.Variant == "wireguard", rng)
	}
	o.Load = l
	o.Ledger = model.Ledger{{Layer: "lab", Key: model.FactMTU, Value: "1500", Source: model.SourceConfig}}
}

func streams(speed float64, rng *rand.Rand) *model.StreamResult {
	s := &model.StreamResult{Streams: 4, Direction: "up", Block: 128 << 10, RTT: 2 * time.Millisecond, MSS: 1448, Congestion: "cubic"}
	for range 10 {
		i := model.StreamInterval{Length: time.Second, Up: uint64(speed / 8 * (1 + 0.01*rng.NormFloat64())), Retransmits: uint64(rng.IntN(40))}
		s.Up += i.Up
		s.Retransmits += i.Retransmits
		s.Intervals = append(s.Intervals, i)
	}
	return s
}

func packets(lossy bool, rng *rand.Rand) *model.DatagramResult {
	d := &model.DatagramResult{Size: 1472, Interface: "eth0", Jitter: 12 * time.Microsecond}
	for range 10 {
		i := model.DatagramInterval{Length: time.Second, Sent: 25_000, Jitter: 12 * time.Microsecond}
		if lossy {
			i.Lost = uint64(40 + rng.IntN(20))
		}
		i.Received = i.Sent - i.Lost
		d.Sent, d.Received, d.Lost = d.Sent+i.Sent, d.Received+i.Received, d.Lost+i.Lost
		d.Intervals = append(d.Intervals, i)
	}
	d.FlowSent, d.FlowReceived, d.InterfacePackets = d.Sent, d.Received, d.Received+3
	return d
}

// A report of flows says nothing of latencies, and all of what flows have.
func TestFlows(t *testing.T) {
	t.Parallel()
	m := buildFlows(t)
	if l := m.Loads[0]; l.Kind != report.KindStream || l.Main[0] != "goodput" || l.ResponseIsService {
		t.Errorf("bulk: %+v", l)
	}
	if l := m.Loads[1]; l.Kind != report.KindDatagrams || l.Main[0] != "loss" {
		t.Errorf("packets: %+v", l)
	}
	for _, name := range []string{"response.p50", "success", "cpu.total", "rate", "goodput.down", "loss"} {
		if c := m.Cell("direct", "bulk", name); c != nil {
			t.Errorf("a stream has %s: %+v", name, c)
		}
		if c := m.Comparison("wireguard", "bulk", name); c != nil {
			t.Errorf("a stream is compared by %s: %+v", name, c)
		}
	}
	if c := m.Comparison("wireguard", "bulk", "goodput"); c.Verdict != report.VerdictDifferent || c.Exploratory || c.Difference.Value > -13e9 {
		t.Errorf("goodput: %+v", c)
	}
	if c := m.Cell("direct", "packets", "loss"); c.Text != "0 % (≤ 0.00012 %)" {
		t.Errorf("no loss in 2.5 million datagrams: %+v", c)
	}
	if len(m.Flows) != 60 || len(m.Timelines) != 0 || len(m.Curves) != 0 {
		t.Errorf("%d flows, %d timelines, %d curves", len(m.Flows), len(m.Timelines), len(m.Curves))
	}
	for _, f := range m.Flows {
		if len(f.Lengths) != 10 || len(f.Up) != 10 || len(f.Down) != 0 {
			t.Errorf("flow %+v", f)
		}
	}
	for _, r := range m.Resources {
		if r.CPUPer1k != nil || r.CPUPerGb == nil {
			t.Errorf("resource %+v", r)
		}
	}
}
