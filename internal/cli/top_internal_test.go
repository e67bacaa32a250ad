package cli

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/report"
)

func TestWriteTraffic(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	nodes := []report.Node{
		{Region: "eu", Cluster: "c", Name: "node-0", Pods: []report.Pod{{Name: "client", Role: "client"}}},
		{Region: "eu", Cluster: "c", Name: "node-1"},
	}
	traffic := report.Traffic{Variant: "flannel", Load: "bulk", Trials: 3, Devices: []report.Device{
		{Kind: "pod", Place: "client", Name: "eth0", In: 1e6, Out: 2.5e9, InPackets: 1234, OutPackets: 60, Dropped: 2},
		{Kind: "underlay", Place: "node-0", Name: "eth0", Out: 2.6e9},
		{Kind: "node", Place: "node-1", Name: "flannel.1"},
		{Kind: "link", Place: "node-0>node-1", OutPackets: 55},
	}}
	err := writeTraffic(&out, titleOf(traffic), nodes, traffic)
	if err != nil {
		t.Fatal(err)
	}
	want := `flannel, bulk (median of 3 trials)
                                                       in          out  packets in/s  out/s  dropped/s
eu/c
  node-0
    eth0 (underlay)                               0 bit/s  2.60 Gbit/s             0      0          0
    pod client (client) eth0                  1.00 Mbit/s  2.50 Gbit/s         1,234   60.0       2.00
  node-1
    flannel.1                                     0 bit/s      0 bit/s             0      0          0
link node-0 to node-1                                                                  55.0          0
`
	var got strings.Builder
	for line := range strings.Lines(out.String()) {
		got.WriteString(strings.TrimPrefix(strings.TrimRight(line, " \n"), "  ") + "\n")
	}
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}

// Rates are those between two looks at the same site.
func TestRates(t *testing.T) {
	t.Parallel()
	look := func(site string, at int64, bytes float64) model.Live {
		return model.Live{Doing: "trial 3, flannel, bulk: running the load", Site: site, Readings: []model.Reading{
			{At: at, Subject: model.DeviceSubject(model.PlacePod, "client", "eth0"), Metric: model.SampleSentBytes, Value: bytes},
			{At: at, Subject: model.DeviceSubject(model.PlacePod, "late-"+site, "eth0"), Metric: model.SampleSentBytes, Value: bytes},
		}}
	}
	const second = 1_000_000_000
	if _, _, ok := rates(model.Live{}, look("s1", second, 0)); ok {
		t.Error("one look has rates")
	}
	if _, _, ok := rates(look("s1", second, 0), look("s2", 2*second, 0)); ok {
		t.Error("two sites have rates in common")
	}
	if _, _, ok := rates(look("s1", second, 0), model.Live{}); ok {
		t.Error("no site has rates")
	}
	now := look("s1", 3*second, 1000)
	now.Readings[1].Subject = model.DeviceSubject(model.PlacePod, "new", "eth0") // was not there before
	got, title, ok := rates(look("s1", second, 500), now)
	if !ok || title != "trial 3, flannel, bulk: running the load (the last 2s)" {
		t.Errorf("%t, %q", ok, title)
	}
	if want := (report.Device{Kind: "pod", Place: "client", Name: "eth0", Out: 2000}); len(got.Devices) != 1 || got.Devices[0] != want {
		t.Errorf("%+v", got.Devices)
	}
}
