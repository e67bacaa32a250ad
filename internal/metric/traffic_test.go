package metric_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/metric"
	"github.com/windtunnel/windtunnel/internal/model"
)

// carried is a trial of a second whose traffic was sampled: what each counter
// grew by.
func carried(l *model.LoadResult, grown map[[2]string]float64) *model.Outcome {
	const second = int64(time.Second)
	l.Elapsed = time.Second
	o := &model.Outcome{Window: model.Window{Start: second, End: 2 * second}, Load: l}
	for key, by := range grown {
		o.Samples = append(o.Samples, model.Series{Subject: key[0], Metric: key[1], At: []int64{second, 2 * second}, Values: []float64{5, 5 + by}})
	}
	return o
}

const (
	underlay = "device:underlay node-1 eth0"
	client   = "device:pod client eth0"
)

func alike(got, want float64) bool { return math.Abs(got-want) < 1e-9*math.Max(1, math.Abs(want)) }

// A stream of 1,000 full segments in packets of 40 over VXLAN.
func TestEfficiencyOfStreams(t *testing.T) {
	t.Parallel()
	const payload, segments, packets, acks, inner, overhead = 1_398_000, 1000, 25, 100, 66, 50
	o := carried(&model.LoadResult{Stream: &model.StreamResult{Up: payload, MSS: 1398}}, map[[2]string]float64{
		{underlay, model.SampleReceivedBytes}:                       payload + (packets+acks)*(inner+overhead),
		{underlay, model.SampleReceivedPackets}:                     packets + acks,
		{"stack:pod client", model.SampleSegments}:                  segments,
		{"stack:pod server-0", model.SampleSegments}:                acks,
		{"stack:node node-1", model.SampleSegments}:                 77, // the node's own
		{"device:pod server-0 eth0", model.SampleReceivedBytes}:     payload + packets*inner,
		{"device:pod server-0 eth0", model.SampleReceivedPackets}:   packets,
		{client, model.SampleReceivedBytes}:                         acks * inner,
		{client, model.SampleReceivedPackets}:                       acks,
		{"device:node node-1 flannel.1", model.SampleReceivedBytes}: 1e9,
	})
	o.Ledger = model.Ledger{{Layer: "wire", Key: model.FactMTU, Value: "1500"}, {Layer: "vxlan", Key: model.FactMTU, Value: "1450"}, {Layer: "vxlan", Key: model.FactOverhead, Value: "50 bytes (IPv4 20)"}}
	got, err := metric.Of(o, "efficiency")
	if want := payload / (payload + (segments+acks)*float64(inner+overhead)); err != nil || !alike(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestDatagramsOnTheWire(t *testing.T) {
	t.Parallel()
	d := &model.DatagramResult{Size: 1472, Sent: 1000, Received: 900, Lost: 100}
	grown := map[[2]string]float64{
		{underlay, model.SampleReceivedBytes}: 1_600_000, {"device:pod server-0 eth0", model.SampleReceivedBytes}: 950 * 1514, {"device:pod server-0 eth0", model.SampleReceivedPackets}: 950, {client, model.SampleSentPackets}: 2000, {"client/generator", model.SampleCPU}: 0.5,
		{"server-0/app", model.SampleCPU}: 0.25, {"stack:pod client", model.SampleFragments}: 2000, {"host", model.SampleBusy}: 1, {"host", model.SampleSoftIRQ}: 0.5,
	}
	o := carried(&model.LoadResult{Datagrams: d}, grown)
	gbit := 900 * 1472 * 8 / 1e9
	for name, want := range map[string]float64{
		"efficiency": 950 * 1472 / 1.6e6, "lost": 100, "loss": 0.1, "fragments": 2, "cpu.gbit.host": 1 / gbit, "cpu.gbit.softirq": 0.5 / gbit,
		"cpu.packets.host": 0.5, "cpu.packets.total": 0.125, "cpu.packets.softirq": 0.25,
	} {
		if got, err := metric.Of(o, name); err != nil || !alike(got, want) {
			t.Errorf("%s is %v, %v, want %v", name, got, err, want)
		}
	}
}

// What is not known must be absent, and what a load does not have too.
func TestTrafficIsAbsent(t *testing.T) {
	t.Parallel()
	stream := &model.StreamResult{Up: 1_000_000, MSS: 1398}
	for _, test := range []struct {
		name, metric string
		o            *model.Outcome
		other        bool
	}{
		{"requests", "efficiency", carried(&model.LoadResult{Succeeded: 1}, nil), true},
		{"not sampled", "efficiency", carried(&model.LoadResult{Datagrams: &model.DatagramResult{Sent: 1}}, nil), false},
		{"one node", "efficiency", carried(&model.LoadResult{Datagrams: &model.DatagramResult{Sent: 1}}, map[[2]string]float64{{underlay, model.SampleReceivedBytes}: 4000, {client, model.SampleReceivedBytes}: 9000}), true},
		{"headers not known", "efficiency", carried(&model.LoadResult{Stream: stream}, map[[2]string]float64{{underlay, model.SampleReceivedBytes}: 1e6}), false},
		{"large buffers", "efficiency", carried(&model.LoadResult{Datagrams: &model.DatagramResult{Offload: true}}, nil), false},
		{"a stream", "fragments", carried(&model.LoadResult{Stream: stream}, nil), true},
		{"a stream", "lost", carried(&model.LoadResult{Stream: stream}, nil), true},
		{"not sampled", "fragments", carried(&model.LoadResult{Datagrams: &model.DatagramResult{Sent: 1}}, nil), false},
		{"not sampled", "cpu.packets.host", carried(&model.LoadResult{Succeeded: 1}, nil), false},
		{"not sampled", "cpu.gbit.host", carried(&model.LoadResult{Stream: stream}, nil), false},
	} {
		got, err := metric.Of(test.o, test.metric)
		if err == nil || errors.Is(err, metric.ErrOtherLoad) != test.other {
			t.Errorf("%s: %s is %v, %v", test.name, test.metric, got, err)
		}
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	o := carried(&model.LoadResult{}, map[[2]string]float64{
		{client, model.SampleReceivedBytes}: 1000, {client, model.SampleSentBytes}: 500, {client, model.SampleReceivedPackets}: 10,
		{client, model.SampleSentPackets}: 5, {client, model.SampleDroppedPackets}: 1, {"host", model.SampleBusy}: 1,
	})
	got := metric.Devices(o)
	want := metric.Device{Kind: "pod", Place: "client", Name: "eth0", In: 8000, Out: 4000, InPackets: 10, OutPackets: 5, Dropped: 1}
	if len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
