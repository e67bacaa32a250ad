package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Crossing is what becomes of frames that a bridge forwards from one port to
// another.
type Crossing struct {
	In, Out string // ports
	// Queue hands the frame to the program that listens there; 0: to none. While
	// nobody listens, frames are dropped.
	Queue uint16
	// Priority is what a queueing discipline of the port Out classifies by, e.g.
	// 1:2 as 0x10002; 0: it stays.
	Priority uint32
}

// ApplyCrossings makes a table of that name, which must not exist yet, in the
// calling thread's namespace.
func ApplyCrossings(name string, crossings []Crossing) error {
	// nft(8) calls this priority "filter" of bridges. Later is too late: where
	// br_netfilter is loaded, as for Docker and Kubernetes, it takes frames out of
	// the hook at -1, and puts them back behind 0.
	const bridgeFilter = -200
	err := applyCrossings(name, nftables.TableFamilyBridge, bridgeFilter, crossings, bridged)
	if errors.Is(err, syscall.ENOENT) {
		// The kernel has no nftables queue. iptables' target does the same, but
		// for IPv4 only: bridges then have to show it what they forward.
		err = sys.WriteSysctl("net/bridge/bridge-nf-call-iptables", "1")
		if err == nil {
			err = applyCrossings(name, nftables.TableFamilyIPv4, *nftables.ChainPriorityFilter, crossings, shown)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &model.UnsupportedError{
			What: "emulating links", Missing: "the kernel has neither netem nor nft_queue, nor all of br_netfilter, xt_physdev and xt_NFQUEUE (" + err.Error() + ")",
			Hint: "load the modules sch_netem and sch_prio, or nft_queue, or the other three with nft_compat",
		}
	}
	return explain("applying nftables table "+name, err)
}

func applyCrossings(
	name string, family nftables.TableFamily, priority nftables.ChainPriority, crossings []Crossing, rule func(Crossing) []expr.Any,
) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	table := conn.AddTable(&nftables.Table{Name: name, Family: family})
	chain := conn.AddChain(&nftables.Chain{
		Name: "forward", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: &priority,
	})
	for _, c := range crossings {
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: rule(c)})
	}
	return conn.Flush()
}

// bridged is a rule of a bridge's own table.
func bridged(c Crossing) []expr.Any {
	exprs := match(Match{In: c.In, Out: c.Out})
	if c.Priority != 0 {
		exprs = append(exprs,
			&expr.Immediate{Register: reg1, Data: binaryutil.NativeEndian.PutUint32(c.Priority)},
			&expr.Meta{Key: expr.MetaKeyPRIORITY, SourceRegister: true, Register: reg1},
		)
	}
	if c.Queue != 0 {
		exprs = append(exprs, &expr.Queue{Num: c.Queue, Total: 1})
	}
	return exprs
}

// shown is a rule of an IPv4 table that sees what bridges forward: iptables'
// "-m physdev --physdev-in a --physdev-out b --physdev-is-bridged -j NFQUEUE".
func shown(c Crossing) []expr.Any {
	// struct xt_physdev_info: both names with their masks, what is inverted, and
	// what is looked at (in, out, is bridged), padded to eight bytes.
	const size, opIn, opOut, opBridged = 72, 1, 2, 4
	info := make([]byte, 0, size)
	for _, port := range []string{c.In, c.Out} {
		mask := make([]byte, len(ifname(port)))
		for i := range len(port) + 1 {
			mask[i] = 0xff
		}
		info = append(append(info, ifname(port)...), mask...)
	}
	info = append(info, 0, opIn|opOut|opBridged)
	physdev := xt.Unknown(info[:size])
	// struct xt_NFQ_info_v3: the number, how many queues, flags, padded.
	const revision, queues = 3, 1
	queue := binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, c.Queue), queues)
	target := xt.Unknown(append(queue, 0, 0, 0, 0))
	return []expr.Any{&expr.Match{Name: "physdev", Info: &physdev}, &expr.Target{Name: "NFQUEUE", Rev: revision, Info: &target}}
}
