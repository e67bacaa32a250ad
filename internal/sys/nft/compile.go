package nft

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// Registers: 1 is 16 bytes wide and the same as the 4-byte registers 8 to 11;
// a concatenated key is loaded into consecutive 4-byte registers.
const (
	reg1      = unix.NFT_REG_1
	reg2      = unix.NFT_REG_2
	reg32Next = unix.NFT_REG32_01
	reg32Last = unix.NFT_REG32_02
)

// Offsets in the IPv4 and the TCP header.
const (
	offsetSource          = 12
	offsetDestination     = 16
	offsetDestinationPort = 2
)

func chain(table *nftables.Table, c Chain) *nftables.Chain {
	out := &nftables.Chain{Name: c.Name, Table: table}
	switch c.Hook {
	case HookNone:
		return out
	case HookPrerouting:
		out.Hooknum, out.Priority = nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest
	case HookOutput:
		out.Hooknum, out.Priority = nftables.ChainHookOutput, nftables.ChainPriorityNATDest
	case HookPostrouting:
		out.Hooknum, out.Priority = nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource
	case HookForward:
		out.Hooknum, out.Priority, out.Type = nftables.ChainHookForward, nftables.ChainPriorityFilter, nftables.ChainTypeFilter
		return out
	}
	out.Type = nftables.ChainTypeNAT
	return out
}

func addRule(conn *nftables.Conn, c *nftables.Chain, r Rule) error {
	exprs := match(r.If)
	if r.Count {
		exprs = append(exprs, &expr.Counter{})
	}
	do, err := act(conn, c.Table, r.Do)
	if err != nil {
		return fmt.Errorf("rule %q: %w", r.Comment, err)
	}
	rule := &nftables.Rule{Table: c.Table, Chain: c, Exprs: append(exprs, do...)}
	if r.Comment != "" {
		rule.UserData = userdata.AppendString(nil, userdata.TypeComment, r.Comment)
	}
	conn.AddRule(rule)
	return nil
}

func match(m Match) []expr.Any {
	var out []expr.Any
	equal := func(data []byte) {
		out = append(out, &expr.Cmp{Op: expr.CmpOpEq, Register: reg1, Data: data})
	}
	meta := func(key expr.MetaKey, data []byte) {
		out = append(out, &expr.Meta{Key: key, Register: reg1})
		equal(data)
	}
	if m.In != "" {
		meta(expr.MetaKeyIIFNAME, ifname(m.In))
	}
	if m.Out != "" {
		meta(expr.MetaKeyOIFNAME, ifname(m.Out))
	}
	if m.Mark != 0 {
		meta(expr.MetaKeyMARK, binaryutil.NativeEndian.PutUint32(m.Mark))
	}
	if m.Established {
		out = append(out, established()...)
	}
	out = append(out, prefix(m.Source, offsetSource)...)
	out = append(out, prefix(m.Destination, offsetDestination)...)
	if m.TCP {
		meta(expr.MetaKeyL4PROTO, []byte{unix.IPPROTO_TCP})
	}
	if m.DestinationPort != 0 {
		out = append(out, payload(expr.PayloadBaseTransportHeader, offsetDestinationPort, 2, reg1))
		equal(binaryutil.BigEndian.PutUint16(m.DestinationPort))
	}
	return out
}

// established is "ct state established,related".
func established() []expr.Any {
	states := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: reg1},
		&expr.Bitwise{SourceRegister: reg1, DestRegister: reg1, Len: 4, Mask: states, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg1, Data: make([]byte, 4)},
	}
}

// prefix matches an IPv4 address of the header; an invalid prefix is any.
func prefix(p netip.Prefix, offset uint32) []expr.Any {
	if !p.IsValid() {
		return nil
	}
	out := []expr.Any{payload(expr.PayloadBaseNetworkHeader, offset, 4, reg1)}
	if p.Bits() < 32 {
		out = append(out, &expr.Bitwise{
			SourceRegister: reg1, DestRegister: reg1, Len: 4,
			Mask: net.CIDRMask(p.Bits(), 32), Xor: make([]byte, 4),
		})
	}
	return append(out, &expr.Cmp{Op: expr.CmpOpEq, Register: reg1, Data: p.Masked().Addr().AsSlice()})
}

func payload(base expr.PayloadBase, offset, length, register uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: base, Offset: offset, Len: length}
}

func act(conn *nftables.Conn, table *nftables.Table, a Action) ([]expr.Any, error) {
	switch a.kind {
	case accept:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}, nil
	case drop:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}, nil
	case goTo:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: a.chains[0]}}, nil
	case random:
		return choose(conn, table, a.chains)
	case dispatch:
		return lookUp(conn, table, a.routes)
	case dnat:
		return []expr.Any{
			&expr.Immediate{Register: reg1, Data: a.to.Addr().AsSlice()},
			&expr.Immediate{Register: reg2, Data: binaryutil.BigEndian.PutUint16(a.to.Port())},
			&expr.NAT{
				Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: reg1, RegProtoMin: reg2,
				Specified: true,
			},
		}, nil
	case redirect:
		return []expr.Any{
			&expr.Immediate{Register: reg1, Data: binaryutil.BigEndian.PutUint16(a.to.Port())},
			&expr.Redir{RegisterProtoMin: reg1, Flags: unix.NF_NAT_RANGE_PROTO_SPECIFIED},
		}, nil
	case masquerade:
		return []expr.Any{&expr.Masq{FullyRandom: true}}, nil
	}
	return nil, fmt.Errorf("unknown action %d", a.kind)
}

// choose is "numgen random mod n vmap { 0 : goto a, 1 : goto b }".
func choose(conn *nftables.Conn, table *nftables.Table, chains []string) ([]expr.Any, error) {
	set := &nftables.Set{
		Table: table, Anonymous: true, Constant: true, IsMap: true,
		KeyType: nftables.TypeInteger, DataType: nftables.TypeVerdict, KeyByteOrder: binaryutil.NativeEndian,
	}
	var elements []nftables.SetElement
	for i, c := range chains {
		elements = append(elements, nftables.SetElement{
			Key:         binary.NativeEndian.AppendUint32(nil, uint32(i)),
			VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: c},
		})
	}
	if err := conn.AddSet(set, elements); err != nil {
		return nil, fmt.Errorf("making the map of a random choice: %w", err)
	}
	return []expr.Any{
		&expr.Numgen{Register: reg1, Modulus: uint32(len(chains)), Type: unix.NFT_NG_RANDOM}, //nolint:gosec // a short list
		&expr.Lookup{SourceRegister: reg1, IsDestRegSet: true, SetID: set.ID, SetName: set.Name},
	}, nil
}

// lookUp is "ip daddr . meta l4proto . th dport vmap { ... }".
func lookUp(conn *nftables.Conn, table *nftables.Table, routes []Route) ([]expr.Any, error) {
	key, err := nftables.ConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService)
	if err != nil {
		return nil, fmt.Errorf("making the key of a service map: %w", err)
	}
	set := &nftables.Set{
		Table: table, Anonymous: true, Constant: true, IsMap: true, Concatenation: true,
		KeyType: key, DataType: nftables.TypeVerdict,
	}
	var elements []nftables.SetElement
	for _, r := range routes {
		k := append(r.To.Addr().AsSlice(), unix.IPPROTO_TCP, 0, 0, 0)
		k = append(binary.BigEndian.AppendUint16(k, r.To.Port()), 0, 0)
		elements = append(elements, nftables.SetElement{
			Key: k, VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: r.Chain},
		})
	}
	if err := conn.AddSet(set, elements); err != nil {
		return nil, fmt.Errorf("making a service map: %w", err)
	}
	return []expr.Any{
		payload(expr.PayloadBaseNetworkHeader, offsetDestination, 4, reg1),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg32Next},
		payload(expr.PayloadBaseTransportHeader, offsetDestinationPort, 2, reg32Last),
		&expr.Lookup{SourceRegister: reg1, IsDestRegSet: true, SetID: set.ID, SetName: set.Name},
	}, nil
}

// ifname is a name as the kernel compares it: 16 bytes, the rest zero.
func ifname(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}
