package labtest

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys/packet"
)

// seen is what passed the underlay of the client's node.
type seen struct {
	forms   map[string]int // of pods' packets
	inner   int            // packets whose insides were between the two pods
	largest int            // bytes of an IP packet
}

// watchWire sends in bulk between pods of two nodes and checks what the
// underlay shows of it.
func (p peers) watchWire(t *testing.T, s NetworkSuite, mtu int) {
	t.Helper()
	const bulk = 8 << 20
	var probe, load seen
	p.capture(t, &probe, func() { // the largest datagram, alone
		c, err := p.dial(t, "udp4", "client-0", "server-0")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // nothing depends on it
		dontFragment(t, c)
		if !p.passes(t, c, mtu-28) {
			t.Errorf("a packet of %d bytes did not pass again", mtu)
		}
	})
	p.capture(t, &load, func() {
		if err := p.send(t, "client-0", "server-0", bulk); err != nil {
			t.Error(err)
		}
	})
	s.judgeForms(t, map[string]seen{"a datagram": probe, "bulk TCP": load})
	s.judgeSizes(t, mtu, probe, load)
}

// judgeForms checks what kinds of packets were on the wire.
func (s NetworkSuite) judgeForms(t *testing.T, all map[string]seen) {
	t.Helper()
	for name, w := range all {
		if len(w.forms) != 1 || w.forms[s.Form] == 0 {
			t.Errorf("of %s the wire shows %v, not %q alone", name, w.forms, s.Form)
		}
		if !s.Sealed && w.inner == 0 {
			t.Errorf("of %s the wire shows nothing between the two pods", name)
		}
	}
}

// judgeSizes checks how large they were.
func (s NetworkSuite) judgeSizes(t *testing.T, mtu int, probe, load seen) {
	t.Helper()
	want := mtu + s.Overhead
	if s.Plain {
		want = mtu
	}
	if !s.Sealed && probe.largest != want {
		t.Errorf("a packet of %d bytes is one of %d on the wire, not of %d", mtu, probe.largest, want)
	}
	if s.Sealed && (probe.largest <= mtu || probe.largest > underlayMTU) {
		t.Errorf("a packet of %d bytes is one of %d on the wire", mtu, probe.largest)
	}
	if s.Segments != (load.largest > underlayMTU) {
		t.Errorf("the largest packet of bulk TCP on the wire has %d bytes; whole segments: %t wanted", load.largest, s.Segments)
	}
}

// capture watches the underlay of the first node while f runs.
func (p peers) capture(t *testing.T, into *seen, f func()) {
	t.Helper()
	var socket *packet.Socket
	In(t, p.site, "node-0", func() (err error) {
		socket, err = packet.Listen("eth0")
		return err
	})
	pods := map[netip.Addr]bool{}
	for _, name := range p.names {
		pods[Pod(t, p.site, name).Addr()] = true
	}
	into.forms = map[string]int{}
	done := make(chan error, 1)
	go func() { done <- socket.Receive(func(b []byte) { into.packet(b, pods) }) }()
	f()
	if err := errors.Join(socket.Stop(), <-done, socket.Close()); err != nil {
		t.Error(err)
	}
}

func (s *seen) packet(b []byte, pods map[netip.Addr]bool) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return
	}
	form, inner := model.NoEncapsulation, b
	if e, in, ok := packet.Decapsulate(b); ok {
		form, inner = e.String(), in
	} else if !pods[source(b)] && !pods[destination(b)] {
		return // between nodes
	}
	s.forms[form]++
	if len(inner) >= 20 && pods[source(inner)] && pods[destination(inner)] {
		s.inner++
	}
	s.largest = max(s.largest, int(binary.BigEndian.Uint16(b[2:])))
}

func source(b []byte) netip.Addr      { return netip.AddrFrom4([4]byte(b[12:16])) }
func destination(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b[16:20])) }
