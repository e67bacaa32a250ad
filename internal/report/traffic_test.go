package report_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
)

// busy makes the client's device pass so many bits per second in a trial.
func busy(bits float64) func(*model.Outcome) {
	return func(o *model.Outcome) {
		flowing(o)
		seconds := o.Window.Duration().Seconds()
		o.Samples = append(o.Samples,
			model.Series{Subject: "device:pod client eth0", Metric: model.SampleSentBytes, At: []int64{o.Window.Start, o.Window.End}, Values: []float64{7, 7 + bits*seconds/8*float64(o.Trial.Block)}},
			model.Series{Subject: "link:a>b", Metric: model.SampleLinkPackets, At: []int64{o.Window.Start, o.Window.End}, Values: []float64{0, 50 * seconds}},
		)
	}
}

func TestTrafficIsTheMedianOfTrials(t *testing.T) {
	t.Parallel()
	s := testStudy(7)
	s.Loads = []model.Load{{Name: "bulk", Protocol: "tcp", Arrival: model.ArrivalClosed, Connections: 1, Duration: 10e9, From: "client", To: "server"}}
	s.Variants = []model.Variant{{Name: "direct"}, {Name: "wireguard", Stack: []model.PluginRef{{Kind: "wireguard"}}}, {Name: "control", Control: true}}
	m := buildStudy(t, s, busy(1e6))
	if len(m.Topology.Traffic) != len(m.Variants) {
		t.Fatalf("%d variants have traffic, of %d", len(m.Topology.Traffic), len(m.Variants))
	}
	got := m.Topology.Traffic[0]
	want := []report.Device{{Kind: "pod", Place: "client", Name: "eth0", Out: 4e6}, {Kind: "link", Place: "a>b", OutPackets: 50}}
	if got.Trials != 7 || len(got.Devices) != 2 || got.Devices[0] != want[0] || got.Devices[1] != want[1] {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Where every node has a pod that sends, the way still ends at a server.
func TestPathToAServerBesideAClient(t *testing.T) {
	t.Parallel()
	s := testStudy(6)
	s.Topology.Regions = []model.Region{{Name: "r", Clusters: []model.Cluster{{Name: "c", Nodes: []model.Node{
		{Name: "node-0", Pods: []model.PodSpec{{Name: "client", Role: "client"}}},
		{Name: "node-1", Pods: []model.PodSpec{{Name: "near", Role: "client"}, {Name: "server-0", Role: "server"}}},
	}}}}}
	m := buildStudy(t, s, nil)
	if hops := m.Topology.Paths[0].Hops; hops[0] != "client generator" || hops[len(hops)-1] != "server-0 app" {
		t.Errorf("%v", hops)
	}
}
