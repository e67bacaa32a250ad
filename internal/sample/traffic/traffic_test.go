package traffic

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

func file(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type space string

func (s space) Name() string                   { return string(s) }
func (s space) InNetwork(f func() error) error { return f() }

func TestReadings(t *testing.T) {
	t.Parallel()
	p := Place{Kind: model.PlaceNode, Space: space("node-0"), Underlay: "eth0", Without: []string{"cni0", "p0"}}
	got, err := p.add(nil, 7, file(t, "dev"), file(t, "snmp"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []model.Reading{
		{At: 7, Subject: "device:underlay node-0 eth0", Metric: model.SampleReceivedBytes, Value: 1000},
		{At: 7, Subject: "device:underlay node-0 eth0", Metric: model.SampleSentPackets, Value: 20},
		{At: 7, Subject: "device:underlay node-0 eth0", Metric: model.SampleDroppedPackets, Value: 5},
		{At: 7, Subject: "device:node node-0 flannel.1", Metric: model.SampleSentBytes, Value: 77},
		{At: 7, Subject: "stack:node node-0", Metric: model.SampleFragments, Value: 12},
		{At: 7, Subject: "stack:node node-0", Metric: model.SampleSegments, Value: 103},
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%+v is not in %+v", want, got)
		}
	}
	const device, stack = 5, 3
	if len(got) != 2*device+stack {
		t.Errorf("%d readings: the loopback, the bridge and the pod's port must be left out: %+v", len(got), got)
	}
}

func TestDevicesAreBounded(t *testing.T) {
	t.Parallel()
	b := bytes.Join(bytes.SplitAfter(file(t, "dev"), []byte("\n"))[:2], nil)
	for i := range 20 {
		b = append(b, "d"+string(rune('a'+i))+": 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n"...)
	}
	got, err := Place{Kind: model.PlacePod, Space: space("p")}.add(nil, 1, b, file(t, "snmp"))
	if want := MaxDevices*5 + 3; err != nil || len(got) != want {
		t.Errorf("%d readings, %v, want %d", len(got), err, want)
	}
}

// What cannot be read must not look like no traffic.
func TestNonsenseIsNoZero(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"", "one line\n", "a\nb\n eth0 1 2 3\n", "a\nb\n eth0: 1 2 3\n", "a\nb\n eth0: 1 x 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n"} {
		if got, err := parseDevices([]byte(b)); err == nil {
			t.Errorf("%q is %+v", b, got)
		}
	}
	for _, b := range []string{"", "Ip: FragCreates\nIp: 1 2\n", "Ip: FragCreates\nTcp: 1\n", "Ip: FragCreates ReasmFails\nIp: 1 -1\nTcp: OutSegs RetransSegs\nTcp: 1 1\n"} {
		if got, err := parseStack([]byte(b)); err == nil {
			t.Errorf("%q is %+v", b, got)
		}
	}
}

func TestSampleThisHost(t *testing.T) {
	t.Parallel()
	got, err := Sampler{[]Place{{Kind: model.PlaceNode, Space: space("here")}}}.Sample(t.Context(), nil)
	if err != nil || !slices.ContainsFunc(got, func(r model.Reading) bool { return r.Subject == "stack:node here" && r.At > 0 }) {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("a\nb\n eth0: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n"))
	f.Add([]byte("Ip: FragCreates ReasmFails\nIp: 1 1\nTcp: OutSegs RetransSegs\nTcp: 1 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, _ := parseDevices(b)
		for _, d := range all {
			if d.received.bytes < 0 || d.sent.packets < 0 {
				t.Errorf("%+v", d)
			}
		}
		if found, err := parseStack(b); err == nil && len(found) == 0 {
			t.Error("nothing was found, and that is no error")
		}
	})
}
