package nft

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// ApplyBarrier makes a table of that name, in the calling thread's namespace,
// that drops whatever comes from or goes to one of the addresses, before
// anything else in the kernel looks at it. Delete removes it.
func ApplyBarrier(name string, foreign []netip.Prefix) error {
	conn, err := nftables.New()
	if err != nil {
		return explain("opening nftables", err)
	}
	table := &nftables.Table{Name: name, Family: nftables.TableFamilyIPv4}
	conn.AddTable(table) // so that there is one to delete
	conn.DelTable(table)
	conn.AddTable(table)
	for _, c := range []struct {
		name   string
		hook   *nftables.ChainHook
		offset uint32
	}{
		{"from", nftables.ChainHookPrerouting, offsetSource},
		{"to", nftables.ChainHookPostrouting, offsetDestination},
	} {
		chain := conn.AddChain(&nftables.Chain{Name: c.name, Table: table, Type: nftables.ChainTypeFilter, Hooknum: c.hook, Priority: nftables.ChainPriorityRaw})
		for _, p := range foreign {
			if !p.Addr().Is4() {
				return fmt.Errorf("nftables table %s: %s is no range of IPv4 addresses", name, p)
			}
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(prefix(p, c.offset), &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop})})
		}
	}
	return explain("applying nftables table "+name, conn.Flush())
}
