package packet

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// ip4 is an IPv4 packet of that protocol.
func ip4(protocol byte, body ...byte) []byte {
	b := make([]byte, ipv4Header, ipv4Header+len(body))
	b[0], b[9] = 0x45, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(ipv4Header+len(body)))
	return append(b, body...)
}

func udp(port uint16, body ...byte) []byte {
	b := make([]byte, udpHeader, udpHeader+len(body))
	binary.BigEndian.PutUint16(b[2:], port)
	return append(b, body...)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestDecapsulate(t *testing.T) {
	t.Parallel()
	inner := ip4(6, 1, 2, 3, 4)
	frame := append(make([]byte, 12), 0x08, 0x00)
	framed := join(frame, inner)
	arp := append(make([]byte, 12), 0x08, 0x06, 0, 1)
	for _, tt := range []struct {
		name  string
		p     []byte
		form  string
		inner []byte
	}{
		{"ipip", ip4(4, inner...), "IPIP", inner},
		{"gre", ip4(47, join([]byte{0, 0, 8, 0}, inner)...), "GRE", inner},
		{"gre with a key and a number", ip4(47, join([]byte{0x30, 0, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8}, inner)...), "GRE", inner},
		{"gre of a frame", ip4(47, join([]byte{0, 0, 0x65, 0x58}, framed)...), "GRE", inner},
		{"gre of another version", ip4(47, join([]byte{0, 1, 8, 0}, inner)...), "", nil},
		{"Flannel's VXLAN", ip4(17, udp(8472, join([]byte{8, 0, 0, 0, 0, 0, 1, 0}, framed)...)...), "VXLAN, VNI 1, port 8472", inner},
		{"VXLAN with an ARP in it", ip4(17, udp(4789, join([]byte{8, 0, 0, 0, 1, 0, 0, 0}, arp)...)...), "VXLAN, VNI 65536, port 4789", nil},
		{"VXLAN without a VNI", ip4(17, udp(8472, make([]byte, 40)...)...), "", nil},
		{"GENEVE of a frame", ip4(17, udp(6081, join([]byte{0, 0, 0x65, 0x58, 0, 0, 7, 0}, framed)...)...), "GENEVE, VNI 7, port 6081", inner},
		{"GENEVE with options", ip4(17, udp(6081, join([]byte{1, 0, 8, 0, 0, 0, 7, 0, 9, 9, 9, 9}, inner)...)...), "GENEVE, VNI 7, port 6081", inner},
		{"GENEVE of another version", ip4(17, udp(6081, join([]byte{0x40, 0, 8, 0, 0, 0, 7, 0}, inner)...)...), "", nil},
		{"WireGuard", ip4(17, udp(51820, 4, 0, 0, 0, 1, 2, 3, 4)...), "WireGuard, port 51820", nil},
		{"not WireGuard on its port", ip4(17, udp(51820, 0x16, 3, 1, 0, 0, 0, 0, 0)...), "", nil},
		{"plain TCP", inner, "", nil},
		{"other UDP", ip4(17, udp(53, framed...)...), "", nil},
		{"a later fragment", func() []byte { p := ip4(4, inner...); p[7] = 1; return p }(), "", nil},
		{"cut off", ip4(4)[:19], "", nil},
		{"nothing", nil, "", nil},
	} {
		e, got, ok := Decapsulate(tt.p)
		if e.String() != tt.form || ok != (tt.form != "") || !bytes.Equal(got, tt.inner) {
			t.Errorf("%s: %q, %x, %t; want %q, %x", tt.name, e, got, ok, tt.form, tt.inner)
		}
	}
}

func FuzzDecapsulate(f *testing.F) {
	f.Add(ip4(4, ip4(6)...))
	f.Add(ip4(47, 0x30, 0, 8, 0))
	f.Add(ip4(17, udp(8472, 8, 0, 0, 0, 0, 0, 1, 0)...))
	f.Add(ip4(17, udp(6081, 0x3f, 0, 8, 0, 0, 0, 1, 0)...))
	f.Fuzz(func(t *testing.T, p []byte) {
		e, inner, ok := Decapsulate(p)
		if ok != (e.Name != "") {
			t.Errorf("found %t, named %q", ok, e.Name)
		}
		if inner != nil && (len(inner) < ipv4Header || inner[0]>>4 != 4 || !bytes.HasSuffix(p, inner)) {
			t.Errorf("inside %x is %x, which is no IPv4 packet of it", p, inner)
		}
	})
}
