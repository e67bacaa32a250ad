package labtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/bpf"
)

// NetworkSuite says how a network layer's conformance is tested.
type NetworkSuite struct {
	Plugin model.Plugin[model.Layer]
	// Config is the layer's, without mtu.
	Config map[string]any
	// Regions puts each of the nodes into a region of its own.
	Regions bool
	// Form is what the wire must show: a packet.Encapsulation, or model.NoEncapsulation.
	Form string
	// Plain says that the wire shows packets as they are, though the layer leaves
	// room for headers.
	Plain bool
	// Sealed says that what is inside cannot be seen.
	Sealed bool
	// Overhead is what the layer adds to a packet of the pods.
	Overhead int
	// Segments says that TCP's large segments cross the underlay whole, to be
	// cut only where a real device would (GSO).
	Segments bool
	// DataPath is what the ledger must say.
	DataPath string
	// Service is a Service layer that must work on top.
	Service func(t *testing.T) model.Layer
}

const underlayMTU = 1500

// networkTopology has three nodes: two clients on the first, servers on the others.
func networkTopology(regions bool) model.Topology {
	pods := [][]model.PodSpec{
		{{Name: "client-0", Role: "client"}, {Name: "client-1", Role: "client"}},
		{{Name: "server-0", Role: "server"}, {Name: "server-1", Role: "server"}},
		{{Name: "server-2", Role: "server"}},
	}
	t := model.Topology{Services: []model.Service{{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"server-0", "server-1", "server-2"}}}}
	for i, p := range pods {
		node := model.Node{Name: "node-" + strconv.Itoa(i), Pods: p}
		if i == 0 || regions {
			cluster := model.Cluster{Name: "cluster-" + strconv.Itoa(i)}
			t.Regions = append(t.Regions, model.Region{Name: "region-" + strconv.Itoa(i), Clusters: []model.Cluster{cluster}})
		}
		last := &t.Regions[len(t.Regions)-1].Clusters[0]
		last.Nodes = append(last.Nodes, node)
	}
	return t
}

// NetworkLayer is the conformance suite that every network layer's tests run, on a
// site of three nodes. All pods must reach each other; the largest packet that
// passes must be what the ledger says; the wire must show the encapsulation
// that was promised and nothing else of the pods; bulk TCP and a Service must
// work; and the removal must leave the site as it was. All of it is done for
// the layer's native MTU and for one of 1,400 bytes.
func NetworkLayer(t *testing.T, s NetworkSuite) {
	t.Helper()
	if s.Config["data_path"] == network.DataPathBPF {
		needProgram(t)
	}
	site := Site(t, networkTopology(s.Regions))
	serveAll(t, site)
	peers := startPeers(t, site)
	before := State(t, site)
	for _, mtu := range []int{underlayMTU - s.Overhead, 1400} {
		config := map[string]any{}
		maps.Copy(config, s.Config)
		if mtu == 1400 {
			config["mtu"] = mtu
		}
		layer := s.layer(t, config)
		remove := deploy(t, site, layer)
		peers.reachAll(t)
		found := peers.probeMTU(t)
		checkLedger(t, site, layer, s, found)
		if found != mtu {
			t.Errorf("the largest packet that passes has %d bytes, not %d", found, mtu)
		}
		peers.watchWire(t, s, mtu)
		if s.Service != nil {
			service := s.Service(t)
			undo := deploy(t, site, service)
			reachAll(t, site, service)
			undo()
		}
		observe(t, site, layer, []string{model.FactEncapsulation})
		remove()
		if diff := cmp.Diff(before, State(t, site)); diff != "" {
			t.Errorf("the removal left another state than the one before deployment (-before +after):\n%s", diff)
		}
		peers.reachAll(t)
	}
}

func (s NetworkSuite) layer(t *testing.T, config map[string]any) model.Layer {
	t.Helper()
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := s.Plugin.New(raw)
	if err != nil {
		t.Fatalf("%s with %s: %v", s.Plugin.Name, raw, err)
	}
	return layer
}

func checkLedger(t *testing.T, site model.Site, layer model.Layer, s NetworkSuite, mtu int) {
	t.Helper()
	o, ok := layer.(model.Observer)
	if !ok {
		t.Fatalf("%T observes nothing", layer)
	}
	ledger, err := o.Observe(t.Context(), site)
	if err != nil {
		t.Fatalf("observing %T: %v", layer, err)
	}
	said := map[string]string{}
	for _, f := range ledger {
		said[f.Key] = f.Value
	}
	if said[model.FactMTU] != strconv.Itoa(mtu) {
		t.Errorf("the ledger says MTU %q, but the largest packet that passes has %d bytes", said[model.FactMTU], mtu)
	}
	if said[model.FactDataPath] != s.DataPath {
		t.Errorf("the ledger says data path %q, not %q", said[model.FactDataPath], s.DataPath)
	}
}

// peers are all pods of a site, each with a server that tells how much it
// received, over TCP and UDP.
type peers struct {
	site  model.Site
	names []string
}

const peerPort = 9

func startPeers(t *testing.T, site model.Site) peers {
	t.Helper()
	p := peers{site: site}
	for _, n := range site.Topology().Nodes() {
		for _, pod := range n.Pods {
			p.names = append(p.names, pod.Name)
			In(t, site, pod.Name, func() error { return p.serve(t) })
		}
	}
	return p
}

// serve serves in the calling thread's namespace until the test ends.
func (peers) serve(t *testing.T) error {
	t.Helper()
	at := netip.AddrPortFrom(netip.IPv4Unspecified(), peerPort).String()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", at)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	u, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", at)
	if err != nil {
		return errors.Join(fmt.Errorf("listening: %w", err), l.Close())
	}
	t.Cleanup(func() { _ = errors.Join(l.Close(), u.Close()) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go count(c)
		}
	}()
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = u.WriteTo([]byte(strconv.Itoa(n)), from) // it asks again
		}
	}()
	return nil
}

// count tells a client how many bytes it has sent.
func count(c net.Conn) {
	defer c.Close() //nolint:errcheck // the client sees it
	buf, total := make([]byte, 1<<17), 0
	for {
		n, err := c.Read(buf)
		total += n
		if err != nil {
			break
		}
	}
	_, _ = c.Write([]byte(strconv.Itoa(total))) // the client sees it
}

// reachAll makes every pod send to every other, and to itself.
func (p peers) reachAll(t *testing.T) {
	t.Helper()
	for _, from := range p.names {
		for _, to := range p.names {
			poll(t, func(int) error { return p.send(t, from, to, 1) })
		}
	}
}

// send sends bytes over TCP and makes sure that all have arrived.
func (p peers) send(t *testing.T, from, to string, bytes int) error {
	t.Helper()
	const patience = 60 * time.Second // of a busy machine
	c, err := p.dial(t, "tcp4", from, to)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing depends on it
	if err = c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	buf := make([]byte, min(bytes, 1<<18))
	for left := bytes; left > 0; left -= len(buf) {
		if _, err = c.Write(buf[:min(left, len(buf))]); err != nil {
			return fmt.Errorf("sending from %s to %s: %w", from, to, err)
		}
	}
	half, ok := c.(*net.TCPConn)
	if !ok {
		return fmt.Errorf("%T is no TCP connection", c)
	}
	if err = half.CloseWrite(); err != nil {
		return err
	}
	n, err := c.Read(buf[:cap(buf)])
	if bytes == 1 && n == 1 && buf[0] == '1' {
		return nil
	}
	if err != nil || string(buf[:n]) != strconv.Itoa(bytes) {
		return fmt.Errorf("from %s to %s: sent %d bytes, %q arrived: %w", from, to, bytes, buf[:n], err)
	}
	return nil
}

func (p peers) dial(t *testing.T, network, from, to string) (c net.Conn, err error) {
	t.Helper()
	d := net.Dialer{Timeout: 2 * time.Second}
	at := netip.AddrPortFrom(Pod(t, p.site, to).Addr(), peerPort).String()
	err = Network(t, p.site, from).InNetwork(func() (err error) {
		c, err = d.DialContext(t.Context(), network, at)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("from %s to %s: %w", from, to, err)
	}
	return c, nil
}

// probeMTU finds the largest packet that gets from a client to a server of
// another node unfragmented.
func (p peers) probeMTU(t *testing.T) int {
	t.Helper()
	const headers = 28 // IPv4 and UDP
	c, err := p.dial(t, "udp4", "client-0", "server-0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // nothing depends on it
	dontFragment(t, c)
	passes, fails := 500, underlayMTU+200
	for fails-passes > 1 {
		size := (passes + fails) / 2
		if p.passes(t, c, size-headers) {
			passes = size
		} else {
			fails = size
		}
	}
	return passes
}

// dontFragment sets DF, whatever the kernel thinks the path's MTU is.
func dontFragment(t *testing.T, c net.Conn) {
	t.Helper()
	udp, ok := c.(*net.UDPConn)
	if !ok {
		t.Fatalf("%T is no UDP socket", c)
	}
	if err := sys.DontFragment(udp); err != nil {
		t.Fatal(err)
	}
}

// passes says whether a datagram arrives whole.
func (peers) passes(t *testing.T, c net.Conn, payload int) bool {
	t.Helper()
	const tries, patience = 3, 300 * time.Millisecond
	answer := make([]byte, 16)
	for range tries {
		_, err := c.Write(make([]byte, payload))
		if errors.Is(err, syscall.EMSGSIZE) {
			return false
		}
		if err != nil {
			t.Fatalf("sending a datagram: %v", err)
		}
		if err = c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(answer)
		for err == nil && string(answer[:n]) != strconv.Itoa(payload) { // of an earlier try
			n, err = c.Read(answer)
		}
		if err == nil {
			return true
		}
	}
	return false
}

// needProgram skips the test where the kernel takes no tunnel made by a BPF
// program, or fails where $WINDTUNNEL_REQUIRE contains "tcx".
func needProgram(t *testing.T) {
	t.Helper()
	Need(t)
	ns, err := sys.NewNetns()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close() //nolint:errcheck // nothing was written to it
	err = ns.Do(func() error {
		a, refused := bpf.Attach(bpf.Tunnel{Mode: bpf.IPIP, Device: "lo", Local: netip.AddrFrom4([4]byte{127, 0, 0, 1})})
		if refused != nil {
			return refused
		}
		return a.Close()
	})
	if lacks, ok := errors.AsType[*model.UnsupportedError](err); ok && !sys.Required("tcx") {
		t.Skipf("no tunnels by BPF programs here: %v", lacks)
	}
	if err != nil {
		t.Fatalf("attaching a tunnel's BPF program: %v", err)
	}
}

// NeedDevice skips the test where the kernel has no devices of that kind, or
// fails where $WINDTUNNEL_REQUIRE names it.
func NeedDevice(t *testing.T, kind string) {
	t.Helper()
	Need(t)
	ns, err := sys.NewNetns()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close() //nolint:errcheck // nothing was written to it
	lacks := ns.Do(func() error { return sys.TryLink(kind) })
	if lacks != nil && sys.Required(kind) {
		t.Fatalf("$WINDTUNNEL_REQUIRE says that there must be %s devices: %v", kind, lacks)
	}
	if lacks != nil {
		t.Skipf("the kernel has no %s devices: %v", kind, lacks)
	}
}

// NeedProgram skips the test where there is no such program, or fails where
// $WINDTUNNEL_REQUIRE names it.
func NeedProgram(t *testing.T, name string) {
	t.Helper()
	Need(t)
	if _, err := sys.Look(name); err == nil {
		return
	}
	if _, err := sys.Look("/usr/sbin/" + name); err == nil {
		return
	}
	if sys.Required(name) {
		t.Fatalf("$WINDTUNNEL_REQUIRE says that there must be a program %s", name)
	}
	t.Skipf("no program %s here", name)
}
