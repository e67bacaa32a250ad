package wire

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Bounds on what a watch keeps, whatever passes.
const (
	maxPorts  = 16
	maxFlows  = 1024 // whose first bytes are still being gathered
	maxPrefix = 2048 // of them; a ServerHello with a post-quantum key has about 1,200
)

// flow is one direction of a TCP connection.
type flow struct{ from, to netip.AddrPort }

// beginning is what a flow has carried so far.
type beginning struct {
	next   uint32 // sequence number of the byte after prefix
	prefix []byte
}

// watch gathers what flows begin with. Only flows whose first packet it saw
// are looked at: bytes from the middle of a connection say nothing.
type watch struct {
	open  map[flow]*beginning
	kinds map[string]int
	ports map[uint16]bool // to which connections were opened
}

// segment is one TCP segment with the start of what it carries.
type segment struct {
	flow
	seq           uint32
	syn, ack, end bool
	payload       []byte
	payloadLength int // on the wire; payload may be cut off
}

const (
	protocolTCP = 6
	flagFIN     = 1 << 0
	flagSYN     = 1 << 1
	flagRST     = 1 << 2
	flagACK     = 1 << 4
)

// parse reads an IPv4 packet; ok is false where it is not the first fragment
// of a whole TCP segment.
func parse(p []byte) (s segment, ok bool) {
	if len(p) < 20 || p[0]>>4 != 4 || p[9] != protocolTCP {
		return s, false
	}
	header, total := int(p[0]&0xf)*4, int(binary.BigEndian.Uint16(p[2:]))
	fragmented := binary.BigEndian.Uint16(p[6:])&0x3fff != 0
	if header < 20 || fragmented || len(p) < header+20 {
		return s, false
	}
	tcp := p[header:]
	data := int(tcp[12]>>4) * 4
	if data < 20 || len(tcp) < data || total < header+data {
		return s, false
	}
	s.from = netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[12:16])), binary.BigEndian.Uint16(tcp))
	s.to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[16:20])), binary.BigEndian.Uint16(tcp[2:]))
	s.seq = binary.BigEndian.Uint32(tcp[4:])
	s.syn, s.ack, s.end = tcp[13]&flagSYN != 0, tcp[13]&flagACK != 0, tcp[13]&(flagFIN|flagRST) != 0
	s.payloadLength = total - header - data
	s.payload = tcp[data:min(len(tcp), data+s.payloadLength)] // Ethernet pads short packets
	return s, true
}

// packet takes one packet into account.
func (w *watch) packet(p []byte) {
	s, ok := parse(p)
	if !ok {
		return
	}
	if s.syn {
		w.opened(s)
		w.begin(s)
		return
	}
	b := w.open[s.flow]
	if b == nil {
		return
	}
	if s.seq == b.next && s.payloadLength > 0 {
		b.prefix = append(b.prefix, s.payload[:min(len(s.payload), maxPrefix-len(b.prefix))]...)
		b.next += uint32(s.payloadLength) //nolint:gosec // at most 65,535
		kind, certain := classify(b.prefix)
		if whole := len(s.payload) == s.payloadLength && len(b.prefix) < maxPrefix; certain || !whole {
			w.found(s.flow, kind)
		}
	}
	if s.end && w.open[s.flow] != nil && s.seq == b.next-uint32(s.payloadLength) { //nolint:gosec // as above
		if len(b.prefix) > 0 {
			kind, _ := classify(b.prefix)
			w.found(s.flow, kind)
		}
		delete(w.open, s.flow)
	}
}

// opened keeps the ports that connections are opened to.
func (w *watch) opened(s segment) {
	if s.ack || len(w.ports) >= maxPorts {
		return
	}
	if w.ports == nil {
		w.ports = map[uint16]bool{}
	}
	w.ports[s.to.Port()] = true
}

// asked names the ports that connections were opened to; "": none was.
func (w *watch) asked() string {
	var all []string
	for _, p := range slices.Sorted(maps.Keys(w.ports)) {
		all = append(all, strconv.Itoa(int(p)))
	}
	return strings.Join(all, ", ")
}

func (w *watch) begin(s segment) {
	if w.open == nil {
		w.open, w.kinds = map[flow]*beginning{}, map[string]int{}
	}
	if len(w.open) < maxFlows || w.open[s.flow] != nil {
		w.open[s.flow] = &beginning{next: s.seq + 1}
	}
}

func (w *watch) found(f flow, kind string) {
	delete(w.open, f)
	w.kinds[kind]++
}

// spoken names all that was found; nothing found is "". What a client offers
// is left out where a server has chosen.
func (w *watch) spoken() string {
	kinds := slices.Sorted(maps.Keys(w.kinds))
	chosen := func(k string) bool { return strings.HasPrefix(k, versionPrefix) }
	if slices.ContainsFunc(kinds, chosen) {
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == offered })
	}
	return strings.Join(kinds, ", ")
}
