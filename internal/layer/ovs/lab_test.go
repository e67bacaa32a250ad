package ovs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/network"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// deployed is a site of two nodes with the layer.
func deployed(t *testing.T, raw string) (model.Site, *Fronted) {
	t.Helper()
	need(t)
	site := labtest.TwoNodes(t)
	plugin, err := Plugin().New([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	layer, ok := plugin.(*Fronted)
	if !ok {
		t.Fatalf("%T", plugin)
	}
	remove, err := layer.Deploy(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"server-0", "server-1", "node-1"} {
		labtest.In(t, site, name, func() error { return listen(t) })
	}
	return site, layer
}

const at = 8080

// listen takes connections in the calling thread's namespace.
func listen(t *testing.T) error {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", fmt.Sprintf("0.0.0.0:%d", at))
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(c.LocalAddr().String()))
			_ = c.Close()
		}
	}()
	return nil
}

// connect returns the address that the server has for itself.
func connect(t *testing.T, site model.Site, from string, to netip.AddrPort) (string, error) {
	t.Helper()
	var answer string
	err := labtest.Network(t, site, from).InNetwork(func() error {
		c, err := net.DialTimeout("tcp4", to.String(), 400*time.Millisecond)
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // only read from
		b := make([]byte, 64)
		n, err := c.Read(b)
		answer = string(b[:n])
		return err
	})
	return answer, err
}

// eventually retries for as long as a busy machine may need.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func wiring(t *testing.T, site model.Site) []model.Wiring {
	t.Helper()
	wired, ok := site.(model.WiredSite)
	if !ok {
		t.Fatalf("%T does not tell its wiring", site)
	}
	return wired.Wiring()
}

func addrOf(t *testing.T, site model.Site, name string) netip.AddrPort {
	t.Helper()
	return netip.AddrPortFrom(labtest.Pod(t, site, name).Addr(), at)
}

// reaches is nil where the client can connect to a pod.
func reaches(t *testing.T, site model.Site, to string) error {
	t.Helper()
	_, err := connect(t, site, "client-0", addrOf(t, site, to))
	return err
}

// What pods see of the switches, on one site: to start one takes its time.
func TestLive(t *testing.T) {
	t.Parallel()
	site, layer := deployed(t, `{"tunnel": "gre", "mtu": "sona"}`)
	serves(t, site, layer)
	answersARP(t, site)
	blocksICMP(t, site)
	passesFragments(t, site, layer)
	losesController(t, site)
}

// passesFragments: datagrams that are larger than any MTU come and go, to pods
// and to services, and beside small ones.
func passesFragments(t *testing.T, site model.Site, layer *Fronted) {
	t.Helper()
	svc, err := site.Service("server")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"server-0", "server-1", "client-0"} {
		labtest.In(t, site, name, func() error { return echo(t) })
	}
	for _, way := range []struct {
		what, from string
		to         netip.AddrPort
	}{
		{"a pod of the same node", "server-0", addrOf(t, site, "server-1")},
		{"a pod of the other node", "client-0", addrOf(t, site, "server-0")},
		{"a service", "client-0", layer.Front(svc)[0]},
	} {
		for _, size := range []int{100, 2000, 8192, 32000} {
			eventually(t, fmt.Sprintf("%d bytes to %s and back", size, way.what), func() error { return exchange(t, site, way.from, way.to, size) })
		}
	}
}

// echo sends datagrams back, in the calling thread's namespace.
func echo(t *testing.T) error {
	t.Helper()
	c, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", fmt.Sprintf("0.0.0.0:%d", at))
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(b[:n], from) // who asks asks again
		}
	}()
	return nil
}

// exchange sends one datagram from a new socket and waits for it to come back.
func exchange(t *testing.T, site model.Site, from string, to netip.AddrPort, size int) error {
	t.Helper()
	return labtest.Network(t, site, from).InNetwork(func() error {
		c, err := net.Dial("udp4", to.String())
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // only a test's
		sent := make([]byte, size)
		for i := range sent {
			sent[i] = byte(i % 251)
		}
		if _, err = c.Write(sent); err != nil {
			return err
		}
		if err = c.SetReadDeadline(time.Now().Add(400 * time.Millisecond)); err != nil {
			return err
		}
		b := make([]byte, 1<<16)
		n, err := c.Read(b)
		if err == nil && !bytes.Equal(b[:n], sent) {
			err = fmt.Errorf("%d bytes came back, and not the same", n)
		}
		return err
	})
}

// serves: services are the switches' own. Connections spread over the pods, and
// none of these sees the virtual address.
func serves(t *testing.T, site model.Site, layer *Fronted) {
	t.Helper()
	svc, err := site.Service("server")
	if err != nil {
		t.Fatal(err)
	}
	front := layer.Front(svc)
	if len(front) != 1 {
		t.Fatalf("fronts %v", front)
	}
	seen := map[string]bool{}
	eventually(t, "connecting to both pods", func() error {
		who, failure := connect(t, site, "client-0", front[0])
		seen[who] = true
		if all := seen[addrOf(t, site, "server-0").String()] && seen[addrOf(t, site, "server-1").String()]; failure == nil && !all {
			failure = fmt.Errorf("answers from %v", seen)
		}
		return failure
	})
	eventually(t, "from a pod of the service to the other", func() error {
		who, failure := connect(t, site, "server-0", front[0])
		if failure == nil && who != addrOf(t, site, "server-1").String() {
			failure = fmt.Errorf("%s answers", who)
		}
		return failure
	})
	ledger, err := layer.Observe(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, f := range ledger {
		said[f.Key] = f.Value
	}
	if said[model.FactTranslated] != "yes, at L4" || !strings.HasPrefix(said[model.FactProgram], "Open vSwitch ") || !strings.Contains(said[factTraffic], "client-0 sent ") ||
		strings.Contains(said[factTraffic], "client-0 sent 0 packets") || !strings.HasSuffix(said[factFlows], " of 2 switches") {
		t.Errorf("the ledger says %v", said)
	}
}

// answersARP: who asks for an address is answered by a flow, and by the
// controller where there is none for it.
func answersARP(t *testing.T, site model.Site) {
	t.Helper()
	client := labtest.Network(t, site, "client-0")
	gateway := wiring(t, site)[0].Gateway
	if err := network.In(client, func(net *sys.Net) error { return net.DeleteNeighbour(network.PodDevice, gateway) }); err != nil {
		t.Fatal(err)
	}
	eventually(t, "with the gateway asked for", func() error { return reaches(t, site, "server-0") })
	direct := sys.RouteVia{To: network.Host(labtest.Pod(t, site, "server-1").Addr()), Device: network.PodDevice}
	if err := network.In(client, func(net *sys.Net) error { return net.ReplaceRoute(direct) }); err != nil {
		t.Fatal(err)
	}
	eventually(t, "with a pod of the other node asked for", func() error { return reaches(t, site, "server-1") })
}

// blocksICMP: pods reach nodes, but not with ICMP, as in SONA; pods reach pods
// with both.
func blocksICMP(t *testing.T, site model.Site) {
	t.Helper()
	node := wiring(t, site)[1].Addr
	eventually(t, "a pod to a node", func() error {
		_, err := connect(t, site, "client-0", netip.AddrPortFrom(node, at))
		return err
	})
	eventually(t, "ICMP to a pod", func() error { return ping(t, site, labtest.Pod(t, site, "server-0").Addr()) })
	for _, outside := range []netip.Addr{node, wiring(t, site)[0].Gateway} {
		if err := ping(t, site, outside); err == nil {
			t.Errorf("%s answers ICMP", outside)
		}
	}
}

// ping sends one echo request from client-0.
func ping(t *testing.T, site model.Site, to netip.Addr) error {
	t.Helper()
	return labtest.Network(t, site, "client-0").InNetwork(func() error {
		c, err := net.Dial("ip4:icmp", to.String())
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // only a test's
		message := []byte{8, 0, 0, 0, 0x77, 0x77, 0, 1}
		binary.BigEndian.PutUint16(message[2:], ^uint16(0x7f78)) // RFC 1071, of 0x0800 + 0x7777 + 1
		if _, err = c.Write(message); err != nil {
			return err
		}
		b := make([]byte, 256)
		if err = c.SetReadDeadline(time.Now().Add(400 * time.Millisecond)); err != nil {
			return err
		}
		_, err = c.Read(b)
		return err
	})
}

// losesController: without one what is there goes on, and what comes anew does
// not; with one that comes back, it does.
func losesController(t *testing.T, site model.Site) {
	t.Helper()
	eventually(t, "at first", func() error { return reaches(t, site, "server-0") })
	mortal, ok := site.(model.ComponentMortal)
	if !ok {
		t.Fatalf("of %T no component can be killed", site)
	}
	struck, revive, err := mortal.KillComponent(t.Context(), model.ComponentController, nil)
	if err != nil || len(struck) != 1 || struck[0] != "node-0" {
		t.Fatalf("killing the controller struck %v, %v", struck, err)
	}
	eventually(t, "without a controller", func() error { return reaches(t, site, "server-0") })

	device := wiring(t, site)[1].Pods[1].Device // of server-1
	tell(t, site, "node-1", "del-port", bridgeInt, device)
	tell(t, site, "node-1", "add-port", bridgeInt, device, "--", "set", "Interface", device, "ofport_request=77")
	for range 3 {
		if err := reaches(t, site, "server-1"); err == nil {
			t.Fatal("a new port works, though no controller has heard of it")
		}
	}
	eventually(t, "the other pod, still", func() error { return reaches(t, site, "server-0") })

	if err := revive(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new port, with a controller", func() error { return reaches(t, site, "server-1") })
}

// start starts a process on a node.
func start(t *testing.T, site model.Site, node string, p model.Process) model.Running {
	t.Helper()
	on, ok := labtest.Network(t, site, node).(model.Starter)
	if !ok {
		t.Fatal("nodes run no processes")
	}
	r, err := on.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tell runs ovs-vsctl on a node.
func tell(t *testing.T, site model.Site, node string, args ...string) {
	t.Helper()
	command := append([]string{"ovs-vsctl", fmt.Sprintf("--db=tcp:127.0.0.1:%d", databasePort), "--timeout=20"}, args...)
	r := start(t, site, node, model.Process{Name: "ovs-vsctl", Component: model.ComponentNetwork, Command: command})
	<-r.Done()
	if ended, ok := r.(model.Finisher); !ok || ended.ExitCode() != 0 {
		t.Fatalf("%v: %v", command, r.Err())
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
