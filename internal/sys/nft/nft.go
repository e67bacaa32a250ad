// Package nft is the small part of nftables that the layers need: IPv4 tables
// for NAT and filters that are described as plain values, applied in one transaction, read
// back with their counters, and removed.
//
// All functions act on the network namespace of the calling thread, so they
// are called from within model.Namespace.InNetwork. They need CAP_NET_ADMIN
// over that namespace, which root of a user namespace has too.
package nft

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Table is one nftables table of family ip that is wanted. Its chains are of
// type nat, so their rules see the first packet of a connection only: a
// counter counts connections. Chains that are entered from HookForward filter:
// their rules see every packet, and count packets.
type Table struct {
	Name   string
	Chains []Chain
}

// Hook is where the kernel enters a chain.
type Hook string

// The hooks, each at the priority that NAT has there.
const (
	// HookNone is a chain that other chains jump to.
	HookNone Hook = ""
	// HookPrerouting sees what comes in from any interface.
	HookPrerouting Hook = "prerouting"
	// HookOutput sees what processes of the namespace send.
	HookOutput Hook = "output"
	// HookPostrouting sees what leaves; only Masquerade makes sense there.
	HookPostrouting Hook = "postrouting"
	// HookForward sees what passes through the namespace, to filter it.
	HookForward Hook = "forward"
)

// Chain is a list of rules, tried in order.
type Chain struct {
	Name  string
	Hook  Hook
	Rules []Rule
}

// Rule does something with the connections that match.
type Rule struct {
	If Match
	// Count counts the connections that match.
	Count bool
	Do    Action
	// Comment names the rule when it is read back; at most 120 bytes.
	Comment string
}

// Match is a condition; every field that is set must hold. The zero Match
// holds for everything.
type Match struct {
	TCP             bool
	Source          netip.Prefix
	Destination     netip.Prefix
	DestinationPort uint16 // needs TCP
	Mark            uint32
	In, Out         string // interfaces
	// Established is true of packets of connections that have been let through,
	// and of ICMP errors about them.
	Established bool
}

// Action is what a rule does: made by Accept, Drop, Goto, Random, Dispatch, DNAT,
// Redirect or Masquerade.
type Action struct {
	kind   actionKind
	chains []string
	routes []Route
	to     netip.AddrPort
}

type actionKind int

const (
	accept actionKind = iota
	drop
	goTo
	random
	dispatch
	dnat
	redirect
	masquerade
)

// Route sends connections for one TCP destination to a chain.
type Route struct {
	To    netip.AddrPort
	Chain string
}

// Accept leaves the connection as it is and ends the table's work on it.
func Accept() Action { return Action{kind: accept} }

// Drop throws the packet away.
func Drop() Action { return Action{kind: drop} }

// Goto goes on in another chain.
func Goto(chain string) Action { return Action{kind: goTo, chains: []string{chain}} }

// Random goes on in one of the chains, each as likely as the others; it is
// the "numgen random mod n vmap" by which kube-proxy balances load.
func Random(chains ...string) Action { return Action{kind: random, chains: chains} }

// Dispatch goes on in the chain of the connection's destination, found in one
// look-up however many routes there are, as in kube-proxy's service-ips map.
// Other connections go on with the next rule.
func Dispatch(routes ...Route) Action { return Action{kind: dispatch, routes: routes} }

// DNAT gives the connection another destination; the rule needs Match.TCP.
func DNAT(to netip.AddrPort) Action { return Action{kind: dnat, to: to} }

// Redirect sends the connection to a port of this namespace; the rule needs
// Match.TCP. The listener finds the first destination by SO_ORIGINAL_DST.
func Redirect(port uint16) Action {
	return Action{kind: redirect, to: netip.AddrPortFrom(netip.Addr{}, port)}
}

// Masquerade gives the connection the address of the interface by which it
// leaves as its source.
func Masquerade() Action { return Action{kind: masquerade} }

// LiveTable is a table as the kernel has it.
type LiveTable struct {
	Name   string
	Chains []LiveChain
}

// LiveChain is a chain as the kernel has it.
type LiveChain struct {
	Name  string
	Rules []LiveRule
}

// LiveRule is what is of interest in a rule that the kernel has.
type LiveRule struct {
	Comment string
	Counted bool
	// Connections is the rule's counter, of packets in filters; 0 unless Counted.
	Connections uint64
	// Random is the number of ways a numgen random expression chooses from;
	// 0 without one.
	Random int
	// DNAT is the destination that the rule sets; not valid if it sets none.
	DNAT netip.AddrPort
	// Redirect is the port that the rule redirects to, or 0.
	Redirect uint16
}

// Apply makes the table exist exactly as given, in one transaction: a table of
// that name is replaced, and on an error nothing has changed. A table of more
// than 150 rules takes several; on an error in a later one the table is gone.
func Apply(t Table) error {
	if err := t.validate(); err != nil {
		return fmt.Errorf("nftables table %s: %w", t.Name, err)
	}
	conn, err := nftables.New()
	if err != nil {
		return explain("opening nftables", err)
	}
	table := &nftables.Table{Name: t.Name, Family: nftables.TableFamilyIPv4}
	conn.AddTable(table) // so that there is one to delete
	conn.DelTable(table)
	conn.AddTable(table)
	chains := map[string]*nftables.Chain{}
	for _, c := range t.Chains {
		chains[c.Name] = conn.AddChain(chain(table, c))
	}
	waiting := 0
	for _, c := range t.Chains {
		for _, r := range c.Rules {
			if err := addRule(conn, chains[c.Name], r); err != nil {
				return fmt.Errorf("nftables table %s, chain %s: %w", t.Name, c.Name, err)
			}
			if waiting++; waiting < maxBatch {
				continue
			}
			waiting = 0
			if err := conn.Flush(); err != nil {
				return errors.Join(explain("applying nftables table "+t.Name, err), Delete(t.Name))
			}
		}
	}
	return explain("applying nftables table "+t.Name, conn.Flush())
}

// maxBatch is how many rules go to the kernel at once: it answers each, and the
// answers have to fit in the socket's buffer, which only root may enlarge.
const maxBatch = 150

// Delete removes the table. A table that does not exist is no error, so it may
// be called twice.
func Delete(name string) error {
	conn, err := nftables.New()
	if err != nil {
		return explain("opening nftables", err)
	}
	conn.DelTable(&nftables.Table{Name: name, Family: nftables.TableFamilyIPv4})
	if err := conn.Flush(); !errors.Is(err, syscall.ENOENT) {
		return explain("deleting nftables table "+name, err)
	}
	return nil
}

// Tables lists the names of all IPv4 tables.
func Tables() ([]string, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, explain("opening nftables", err)
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return nil, explain("listing nftables tables", err)
	}
	var names []string
	for _, t := range tables {
		names = append(names, t.Name)
	}
	return names, nil
}

// Read returns the table as the kernel has it, counters included.
func Read(name string) (LiveTable, error) {
	live := LiveTable{Name: name}
	conn, err := nftables.New()
	if err != nil {
		return live, explain("opening nftables", err)
	}
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return live, explain("listing nftables chains", err)
	}
	for _, c := range chains {
		if c.Table.Name != name {
			continue
		}
		rules, err := conn.GetRules(c.Table, c)
		if err != nil {
			return live, explain("reading nftables chain "+c.Name, err)
		}
		lc := LiveChain{Name: c.Name}
		for _, r := range rules {
			lc.Rules = append(lc.Rules, decode(r.Exprs, r.UserData))
		}
		live.Chains = append(live.Chains, lc)
	}
	if len(live.Chains) == 0 {
		return live, fmt.Errorf("nftables table %s does not exist", name)
	}
	return live, nil
}

// explain adds what was being done, and turns a kernel without nftables into
// an UnsupportedError.
func explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPROTONOSUPPORT), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.EAFNOSUPPORT):
		return &model.UnsupportedError{
			What: doing, Missing: "the kernel has no nftables (" + err.Error() + ")",
			Hint: "load the modules nf_tables, nft_nat, nft_chain_nat, nft_numgen, nft_redir and nft_masq",
		}
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s needs CAP_NET_ADMIN in this network namespace: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// validate finds what the kernel would refuse without saying why.
func (t Table) validate() error {
	names := map[string]bool{}
	for _, c := range t.Chains {
		if names[c.Name] {
			return fmt.Errorf("two chains %q", c.Name)
		}
		names[c.Name] = true
	}
	for _, c := range t.Chains {
		for i, r := range c.Rules {
			if err := r.validate(names); err != nil {
				return fmt.Errorf("chain %s, rule %d: %w", c.Name, i, err)
			}
		}
	}
	return nil
}

func (r Rule) validate(chains map[string]bool) error {
	needsTCP := r.If.DestinationPort != 0 || r.Do.kind == dnat || r.Do.kind == redirect
	if needsTCP && !r.If.TCP {
		return errors.New("a port needs Match.TCP")
	}
	if r.Do.kind == random && len(r.Do.chains) == 0 {
		return errors.New("a random choice among no chains")
	}
	if r.Do.kind == dnat && !r.Do.to.Addr().Is4() {
		return fmt.Errorf("cannot DNAT to %s: not an IPv4 address", r.Do.to)
	}
	if len(r.Comment) > 120 {
		return errors.New("comment is longer than 120 bytes")
	}
	targets := slices.Clone(r.Do.chains)
	for _, route := range r.Do.routes {
		targets = append(targets, route.Chain)
		if !route.To.Addr().Is4() {
			return fmt.Errorf("cannot dispatch %s: not an IPv4 address", route.To)
		}
	}
	for _, target := range targets {
		if !chains[target] {
			return fmt.Errorf("no chain %q", target)
		}
	}
	return nil
}

// decode finds in a rule's expressions what LiveRule tells.
func decode(exprs []expr.Any, data []byte) LiveRule {
	var live LiveRule
	live.Comment, _ = userdata.GetString(data, userdata.TypeComment)
	registers := map[uint32][]byte{}
	for _, e := range exprs {
		switch e := e.(type) {
		case *expr.Counter:
			live.Counted, live.Connections = true, e.Packets
		case *expr.Numgen:
			live.Random = int(e.Modulus)
		case *expr.Immediate:
			registers[e.Register] = e.Data
		case *expr.NAT:
			addr, ok := netip.AddrFromSlice(registers[e.RegAddrMin])
			port := registers[e.RegProtoMin]
			if ok && len(port) >= 2 {
				live.DNAT = netip.AddrPortFrom(addr, uint16(port[0])<<8|uint16(port[1]))
			}
		case *expr.Redir:
			if port := registers[e.RegisterProtoMin]; len(port) >= 2 {
				live.Redirect = uint16(port[0])<<8 | uint16(port[1])
			}
		}
	}
	return live
}
