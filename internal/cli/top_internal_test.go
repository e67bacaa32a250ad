package cli

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/report"
)

func TestWriteTraffic(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	nodes := []report.Node{
		{Region: "eu", Cluster: "c", Name: "node-0", Pods: []report.Pod{{Name: "client", Role: "client"}}},
		{Region: "eu", Cluster: "c", Name: "node-1"},
	}
	err := writeTraffic(&out, nodes, report.Traffic{Variant: "flannel", Load: "bulk", Trials: 3, Devices: []report.Device{
		{Kind: "pod", Place: "client", Name: "eth0", In: 1e6, Out: 2.5e9, InPackets: 1234, OutPackets: 60, Dropped: 2},
		{Kind: "underlay", Place: "node-0", Name: "eth0", Out: 2.6e9},
		{Kind: "node", Place: "node-1", Name: "flannel.1"},
		{Kind: "link", Place: "node-0>node-1", OutPackets: 55},
	}})
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
