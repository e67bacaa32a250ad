package openflow

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// What Open vSwitch's own printer makes of our messages, where it is installed.
func TestOpenVSwitchReadsThem(t *testing.T) {
	t.Parallel()
	printer, err := exec.LookPath("ovs-ofctl")
	if err != nil {
		t.Skip("there is no ovs-ofctl")
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	service := Connection{Zone: 1, Commit: true, Table: 53, NAT: true, To: netip.MustParseAddrPort("10.1.0.9:8080")}
	back := Connection{Zone: 1, Table: 60, NAT: true}
	ip := Match{EthType(EtherIPv4)}
	for name, tt := range map[string]struct {
		kind Type
		body []byte
		want []string
	}{
		"hello": {TypeHello, hello(), []string{"OFPT_HELLO (OF1.3)", "version bitmap: 0x04"}},
		"goto": {
			TypeFlowMod,
			Flow{Table: 3, Priority: 7, Cookie: 0xabc, Match: append(ip, InPort(5), IPv4Src(prefix("10.0.0.0/8")), IPProto(ProtocolTCP), TCPDst(80)), Goto: 9}.Add(),
			[]string{"ADD table:3 priority=7,tcp,in_port=5,nw_src=10.0.0.0/8,tp_dst=80 cookie:0xabc actions=goto_table:9"},
		},
		"track": {
			TypeFlowMod,
			Flow{Match: append(ip, CTState(CTNew|CTTracked, CTNew|CTTracked)), Do: []Action{back.Action()}}.Add(),
			[]string{"ct_state=+new+trk,ip", "actions=ct(table=60,zone=1,nat)"},
		},
		"answer": {
			TypeFlowMod,
			Flow{
				Match: Match{EthType(EtherARP), ARPOp(1), ARPTarget(netip.MustParseAddr("10.0.0.1"))},
				Do:    append(SenderToTarget(), Set(EthSrc(mac)), Set(ARPOp(2)), Output(PortIn)),
			}.Add(),
			[]string{
				"arp,arp_tpa=10.0.0.1,arp_op=1",
				"actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[]," +
					"set_field:02:00:00:00:00:01->eth_src,set_field:2->arp_op,IN_PORT",
			},
		},
		"tunnel": {
			TypeFlowMod,
			Flow{Match: ip, Do: []Action{Set(TunnelID(100)), Set(TunnelDst(netip.MustParseAddr("172.18.0.3"))), Output(4)}}.Add(),
			[]string{"actions=set_field:0x64->tun_id,set_field:172.18.0.3->tun_dst,output:4"},
		},
		"delete": {TypeFlowMod, DeleteFlows(7), []string{"DEL table:255", "cookie:0x7/0xffffffffffffffff"}},
		"group": {
			TypeGroupMod, Group{ID: 2, Buckets: [][]Action{{service.Action()}, {Output(1)}}}.Put(),
			[]string{"group_id=2,type=select", "actions=ct(commit,table=53,zone=1,nat(dst=10.1.0.9:8080))", "actions=output:1"},
		},
		"to group":   {TypeFlowMod, Flow{Match: ip, Do: []Action{ToGroup(2)}}.Add(), []string{"actions=group:2"}},
		"packet out": {TypePacketOut, PacketOut(PortController, make([]byte, 60), Output(6)), []string{"in_port=CONTROLLER actions=output:6", "data_len=60"}},
		"flows":      {TypeMultipartRequest, question(partFlows, allFlows()), []string{"OFPST_FLOW request"}},
	} {
		message, err := Message{Type: tt.kind, XID: 1, Body: tt.body}.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), printer, "ofp-print", hex.EncodeToString(message)).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		for _, want := range tt.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s is read as %q, which has no %q", name, out, want)
			}
		}
	}
}

// fake is a switch at the other end of a connection.
type fake struct {
	net.Conn

	in *bufio.Reader
}

// connected are both ends of a connection with room for what is not yet read.
func connected(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it has done its work
	if ours, err = net.Dial("tcp4", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if theirs, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(ours.Close(), theirs.Close()) })
	return ours, theirs
}

// dial shakes hands with a fake.
func dial(t *testing.T, features []byte) (*Switch, *fake, error) {
	t.Helper()
	ours, theirs := connected(t)
	f := &fake{theirs, bufio.NewReader(theirs)}
	go func() {
		_, _ = Read(f.in)
		f.say(TypeHello, 0, hello())
		m, _ := Read(f.in)
		f.say(TypeEchoRequest, 77, []byte("are you there"))
		if echo, _ := Read(f.in); echo.Type == TypeEchoReply && echo.XID == 77 && string(echo.Body) == "are you there" {
			f.say(TypeFeaturesReply, m.XID, features)
		}
	}()
	s, err := Connect(ours)
	return s, f, err
}

func (f *fake) say(kind Type, xid uint32, body []byte) {
	if b, err := (Message{Type: kind, XID: xid, Body: body}).Append(nil); err == nil {
		_, _ = f.Write(b)
	}
}

func featuresOf(datapath uint64) []byte {
	return append(binary.BigEndian.AppendUint64(nil, datapath), make([]byte, 16)...)
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	s, _, err := dial(t, featuresOf(42))
	if err != nil || s.Features.Datapath != 42 {
		t.Fatalf("%v, %v", s, err)
	}
	if _, _, err := dial(t, []byte{1}); err == nil {
		t.Error("features of one byte are taken")
	}
	ours, theirs := connected(t)
	go func() {
		in := bufio.NewReader(theirs)
		_, _ = Read(in)
		_, _ = theirs.Write([]byte{1, 0, 0, 8, 0, 0, 0, 0}) // OpenFlow 1.0
	}()
	if _, err := Connect(ours); !errors.Is(err, ErrVersion) {
		t.Errorf("a switch of OpenFlow 1.0: %v", err)
	}
}

// What a switch says by itself while an answer is waited for is not lost, and
// what it refuses is an error.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s, f, err := dial(t, featuresOf(1))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			m, gone := Read(f.in)
			if gone != nil {
				return
			}
			switch m.Type {
			case TypeFlowMod:
				if m.Body[16] == 250 { // the table
					f.say(TypeError, m.XID, []byte{0, 4, 0, 2, 4, byte(TypeFlowMod)})
				}
			case TypeBarrierRequest:
				f.say(TypePortStatus, 0, append(make([]byte, 8), portBody(3, "p3")...))
				f.say(TypeBarrierReply, m.XID, nil)
			case TypeMultipartRequest:
				f.say(TypeMultipartReply, m.XID, append([]byte{0, partPortDescs, 0, moreParts, 0, 0, 0, 0}, portBody(1, "p1")...))
				f.say(TypeMultipartReply, m.XID, append([]byte{0, partPortDescs, 0, 0, 0, 0, 0, 0}, portBody(2, "p2")...))
			default: // nothing else has an answer
			}
		}
	}()
	if err = s.Install([]Group{{ID: 1}}, []Flow{{Table: 1}}); err != nil {
		t.Fatal(err)
	}
	m, err := s.Next(time.Second)
	if err != nil || m.Type != TypePortStatus {
		t.Fatalf("next is %v, %v", m, err)
	}
	if p, removed, cut := ParsePortStatus(m.Body); p.Name != "p3" || p.Number != 3 || removed || cut != nil {
		t.Errorf("the port is %v, %t, %v", p, removed, cut)
	}
	ports, err := s.Ports()
	if err != nil || !slices.Equal(ports, []Port{{Number: 1, Name: "p1"}, {Number: 2, Name: "p2"}}) {
		t.Errorf("ports %v, %v", ports, err)
	}
	var refused *SwitchError
	if err := s.Install(nil, []Flow{{Table: 250}}); !errors.As(err, &refused) || refused.Type != 4 || refused.Code != 2 || refused.Refused != TypeFlowMod {
		t.Errorf("a refused flow gives %v", err)
	}
}

func portBody(number uint32, name string) []byte {
	b := append(binary.BigEndian.AppendUint32(nil, number), make([]byte, 12)...)
	return pad(append(b, name...), portSize)
}

func TestSilentSwitchIsGivenUp(t *testing.T) {
	t.Parallel()
	s, f, err := dial(t, featuresOf(1))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = Read(f.in) }() // the question whether it is there
	if _, err := s.Next(10 * time.Millisecond); err == nil {
		t.Error("a switch that says nothing is waited for")
	}
}

func TestMatchIsReadBack(t *testing.T) {
	t.Parallel()
	m := Match{InPort(9), EthType(EtherIPv4), IPv4Src(prefix("10.1.2.3/32")), IPv4Dst(prefix("10.2.0.0/16")), CTState(1, 3)}
	r := &reader{b: m.append(nil)}
	got := r.match()
	if r.err != nil || len(r.b) != 0 || len(got) != len(m) {
		t.Fatalf("%v, %v, %d bytes left", got, r.err, len(r.b))
	}
	for i := range m {
		if got[i].Field != m[i].Field || !bytes.Equal(got[i].Bytes, m[i].Bytes) || !bytes.Equal(got[i].Mask, m[i].Mask) {
			t.Errorf("%v is read back as %v", m[i], got[i])
		}
	}
	if src, dst, ok := got.Addrs(); !ok || src.String() != "10.1.2.3" || dst.String() != "10.2.0.0" {
		t.Errorf("from %v to %v, %t", src, dst, ok)
	}
	if port, err := got.port(); err != nil || port != 9 {
		t.Errorf("port %d, %v", port, err)
	}
}

// What a switch does not count is no number.
func TestPortCounters(t *testing.T) {
	t.Parallel()
	b := append(binary.BigEndian.AppendUint32(nil, 3), 0, 0, 0, 0)
	for _, n := range []uint64{1, 2, 3, 4, 5, ^uint64(0)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	got, err := ParsePortCounters(append(b, make([]byte, 6*8+8)...))
	want := PortCounters{Port: 3, ReceivedPackets: 1, Packets: 2, ReceivedBytes: 3, Bytes: 4, Dropped: 5}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%v, %v", got, err)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	if _, err := (Message{Body: make([]byte, maxMessage)}).Append(nil); err == nil {
		t.Error("a message of more than 65,535 bytes is written")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{4, 0, 0, 8, 0, 0, 0, 1})
	f.Add([]byte{4, 0, 0, 7, 0, 0, 0, 1})
	f.Add([]byte{4, 2, 0, 10, 0, 0, 0, 1, 5})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Read(bufio.NewReader(bytes.NewReader(b)))
		if err == nil && len(m.Body)+headerSize > len(b) {
			t.Errorf("of %d bytes a message of %d was read", len(b), len(m.Body))
		}
	})
}

// FuzzBodies reads the same bytes as each of the messages.
func FuzzBodies(f *testing.F) {
	f.Add(featuresOf(1))
	f.Add(portBody(1, "p1"))
	f.Add(append(make([]byte, 8), portBody(1, "p1")...))
	f.Add(append(append(make([]byte, 16), Match{InPort(1)}.append(nil)...), 0, 0, 1))
	f.Add(append([]byte{0, 56}, append(make([]byte, 46), Match{}.append(nil)...)...))
	f.Add(append([]byte{0, 40}, make([]byte, 38)...))
	f.Add([]byte{0, 4, 0, 1, 4, 14})
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := ParsePacketIn(b); err == nil && len(p.Data) > len(b) {
			t.Errorf("a packet of %d bytes in %d", len(p.Data), len(b))
		}
		if ports, err := ParsePorts(b); err == nil && len(ports)*portSize != len(b) {
			t.Errorf("%d ports in %d bytes", len(ports), len(b))
		}
		if flows, err := ParseFlowCounters(b); err == nil {
			for _, f := range flows {
				f.Flow.Match.Addrs()
			}
		}
		if groups, err := ParseGroupCounters(b); err == nil && len(groups) > len(b) {
			t.Errorf("%d groups in %d bytes", len(groups), len(b))
		}
		if counters, err := ParsePortCounters(b); err == nil && len(counters) > len(b) {
			t.Errorf("counters of %d ports in %d bytes", len(counters), len(b))
		}
		if ParseError(b) == nil {
			t.Error("an error is none")
		}
		_, _ = ParseFeatures(b)
		_, _ = ParsePart(b)
		_, _ = ParseProgram(b)
		_, _, _ = ParsePortStatus(b)
	})
}
