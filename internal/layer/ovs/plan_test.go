package ovs

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{}`:                                "native vxlan",
		`{"mtu": "sona", "tunnel": "gre"}`:  "1400 gre",
		`{"mtu": 1300, "tunnel": "geneve"}`: "1300 geneve",
		`{"mtu": "sonar"}`:                  "error: it can be native, equal or a number",
		`{"tunnel": "stt"}`:                 `error: tunnel is "stt"; it can be vxlan, gre or geneve`,
		`{"services": "nft"}`:               `error: services is "nft"; it can be groups or none`,
		`{"tunnels": "gre"}`:                "error: unknown field",
	} {
		layer, err := Plugin().New(json.RawMessage(raw))
		if say, fails := strings.CutPrefix(want, "error: "); fails {
			if err == nil || !strings.Contains(err.Error(), say) {
				t.Errorf("%s: %v, not an error with %q", raw, err, say)
			}
			continue
		}
		fronted, ok := layer.(*Fronted)
		if !ok || err != nil {
			t.Errorf("%s: %T, %v", raw, layer, err)
			continue
		}
		ours := fronted.Layer
		if got := string(ours.fabric.config.MTU) + " " + ours.fabric.config.Tunnel; got != want {
			t.Errorf("%s is %s, not %s", raw, got, want)
		}
	}
}

// Without services of its own the layer gives no addresses.
func TestNoServices(t *testing.T) {
	t.Parallel()
	layer, err := Plugin().New(json.RawMessage(`{"services": "none"}`))
	if _, fronts := layer.(model.Fronter); fronts || err != nil {
		t.Errorf("%T, %v", layer, err)
	}
}

func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	f := &fabric{}
	if err := f.find(); err != nil && (!errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "apt-get install openvswitch-switch")) {
		t.Errorf("without the search path: %v", err)
	}
}

func twoNodes() plan {
	p := plan{Tunnel: VXLAN, Services: []service{{
		Name: "web", VIP: netip.MustParseAddrPort("10.96.0.10:80"),
		Backends: []netip.AddrPort{netip.MustParseAddrPort("10.128.4.2:8080"), netip.MustParseAddrPort("10.128.4.3:8080")},
	}}}
	for i := range byte(2) {
		m := machine{
			Datapath: uint64(i) + 1, Node: fmt.Sprintf("node-%d", i), Addr: netip.AddrFrom4([4]byte{172, 18, 0, 2 + i}),
			Gateway: netip.AddrFrom4([4]byte{10, 128, 4 * i, 1}), Range: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128, 4 * i, 0}), 22),
		}
		for k := range byte(2) {
			m.Pods = append(m.Pods, pod{Name: fmt.Sprintf("pod-%d-%d", i, k), Device: fmt.Sprintf("p%d", k), Addr: netip.AddrFrom4([4]byte{10, 128, 4 * i, 2 + k})})
		}
		p.Switches = append(p.Switches, m)
	}
	return p
}

// Packets go on in later tables only, no flow hides another, and a pod without
// a port has no flows.
func TestFlows(t *testing.T) {
	t.Parallel()
	p := twoNodes()
	all := p.flows(p.Switches[0], map[string]uint32{"p0": 1, "p1": 2, VXLAN: 3}, 9)
	seen := map[string]bool{}
	for _, f := range all {
		if f.Goto != 0 && f.Goto <= f.Table || f.Cookie != 9 {
			t.Errorf("a flow of table %d with cookie %d goes on in table %d", f.Table, f.Cookie, f.Goto)
		}
		key := fmt.Sprint(f.Table, f.Priority, f.Match)
		if seen[key] {
			t.Errorf("there are two flows %s", key)
		}
		seen[key] = true
	}
	const ofPod, ofNode = 5, 2
	if n := len(p.flows(p.Switches[0], map[string]uint32{"p0": 1, VXLAN: 3}, 9)); n != len(all)-ofPod {
		t.Errorf("without a pod there are %d flows, of %d", n, len(all))
	}
	const entry = 1
	if n := len(p.flows(p.Switches[0], map[string]uint32{"p0": 1, "p1": 2}, 9)); n != len(all)-ofNode-entry {
		t.Errorf("without a tunnel there are %d flows, of %d", n, len(all))
	}
	groups := p.groups()
	if len(groups) != 1 || len(groups[0].Buckets) != 2 {
		t.Errorf("groups %v", groups)
	}
}

// The database's records say how long they are and what they add up to.
func TestDatabase(t *testing.T) {
	t.Parallel()
	c := switchConfig{datapath: 0x2a, underlay: "eth0", mac: "0a:58:ac:12:00:03", pods: []string{"p0"}, mtu: 1400, underMTU: 1500}
	b, err := c.database([]byte(`{ "name" : "Open_vSwitch" }`))
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(bytes.NewReader(b))
	var records [][]byte
	for {
		head, err := in.ReadString('\n')
		if err != nil {
			break
		}
		var size int
		var sum string
		if _, err := fmt.Sscanf(head, "OVSDB JSON %d %s\n", &size, &sum); err != nil {
			t.Fatalf("%q: %v", head, err)
		}
		data := make([]byte, size)
		if _, err := in.Read(data); err != nil || fmt.Sprintf("%x", sha1.Sum(data)) != sum {
			t.Fatalf("a record of %d bytes does not add up to %s: %v", size, sum, err)
		}
		records = append(records, data)
	}
	if len(records) != 2 || string(records[0]) != "{\"name\":\"Open_vSwitch\"}\n" {
		t.Fatalf("%d records, the first is %s", len(records), records[0])
	}
	var rows map[string]map[string]map[string]any
	if err := json.Unmarshal(records[1], &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows["Bridge"]) != 2 || len(rows["Port"]) != 7 || len(rows["Interface"]) != 7 || len(rows["Controller"]) != 1 {
		t.Errorf("rows: %s", records[1])
	}
	if !strings.Contains(string(records[1]), `"000000000000002a"`) || strings.Count(string(records[1]), `"secure"`) != 1 {
		t.Errorf("rows: %s", records[1])
	}
	if _, err := c.database([]byte("{")); err == nil {
		t.Error("half a schema is taken")
	}
}

func TestARP(t *testing.T) {
	t.Parallel()
	who := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	q := question{mac: who, sender: netip.MustParseAddr("10.128.0.2"), target: netip.MustParseAddr("10.128.4.2")}
	mine := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	out := q.answer(mine)
	if len(out) != arpSize || !bytes.Equal(out[:6], who) || !bytes.Equal(out[6:12], mine) || !bytes.Equal(out[28:32], q.target.AsSlice()) || !bytes.Equal(out[38:42], q.sender.AsSlice()) {
		t.Errorf("the answer is %x", out)
	}
	if _, err := parseARP(out); err == nil {
		t.Error("an answer is taken for a question")
	}
	out[21] = request
	again, err := parseARP(out)
	if err != nil || again.sender != q.target || again.target != q.sender || !bytes.Equal(again.mac, mine) {
		t.Errorf("%v, %v", again, err)
	}
	p := twoNodes()
	if !p.knows(netip.MustParseAddr("10.128.4.3")) || !p.knows(netip.MustParseAddr("10.128.0.1")) || p.knows(netip.MustParseAddr("10.128.4.9")) {
		t.Error("the controller knows other addresses than the pods' and gateways'")
	}
	if _, ok := p.byDatapath(3); ok {
		t.Error("the controller knows a switch that is not there")
	}
}

func FuzzARP(f *testing.F) {
	f.Add(question{mac: make([]byte, 6), sender: netip.IPv4Unspecified(), target: netip.IPv4Unspecified()}.answer(make([]byte, 6)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		q, err := parseARP(frame)
		if err == nil && len(q.answer(make([]byte, 6))) != arpSize {
			t.Errorf("%x has an answer of another size", frame)
		}
	})
}

// A database may refuse, know no such bridge, or say nothing that makes sense.
func TestAssign(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]string{
		`{"id": 1, "result": [{"uuid": ["uuid", "1"]}, {"count": 1}], "error": null}`:               "",
		`{"id": 1, "result": [{"uuid": ["uuid", "1"]}, {"count": 0}], "error": null}`:               "no bridge kbr-int",
		`{"id": 1, "result": [{"error": "constraint violation", "details": "why"}], "error": null}`: "constraint violation (why)",
		`{"id": 1, "result": null, "error": "unknown database"}`:                                    "unknown database",
		`nothing`: "reading the database's answer",
	} {
		here, there := net.Pipe()
		asked := make(chan map[string]any, 1)
		go func() {
			defer there.Close() //nolint:errcheck // the test's end of a pipe
			var request map[string]any
			_ = json.NewDecoder(there).Decode(&request)
			asked <- request
			_, _ = io.WriteString(there, reply)
		}()
		err := assign(here, "tcp:172.18.0.2:6653")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", reply, err, want)
		}
		if got := fmt.Sprint(<-asked); !strings.Contains(got, "target:tcp:172.18.0.2:6653") || !strings.Contains(got, "where:[[name == kbr-int]]") {
			t.Errorf("asked %s", got)
		}
		_ = here.Close()
	}
}
