package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"

	"github.com/windtunnel/windtunnel/internal/model"
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

// ApplyCrossings makes a bridge table of that name, which must not exist yet,
// in the calling thread's namespace.
func ApplyCrossings(name string, crossings []Crossing) error {
	err := applyCrossings(name, crossings, queueNative)
	if errors.Is(err, syscall.ENOENT) {
		// The kernel has no nftables queue; iptables' target does the same.
		err = applyCrossings(name, crossings, queueCompat)
	}
	if errors.Is(err, syscall.ENOENT) {
		return &model.UnsupportedError{
			What: "handing packets to the delay line", Missing: "the kernel has neither nft_queue nor xt_NFQUEUE for bridges (" + err.Error() + ")",
			Hint: "load the modules nft_queue, or nft_compat and xt_NFQUEUE; or sch_netem and sch_prio, which need neither",
		}
	}
	return explain("applying nftables bridge table "+name, err)
}

func applyCrossings(name string, crossings []Crossing, queue func(uint16) expr.Any) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	table := conn.AddTable(&nftables.Table{Name: name, Family: nftables.TableFamilyBridge})
	chain := conn.AddChain(&nftables.Chain{
		Name: "forward", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
	})
	for _, c := range crossings {
		exprs := match(Match{In: c.In, Out: c.Out})
		if c.Priority != 0 {
			exprs = append(exprs,
				&expr.Immediate{Register: reg1, Data: binaryutil.NativeEndian.PutUint32(c.Priority)},
				&expr.Meta{Key: expr.MetaKeyPRIORITY, SourceRegister: true, Register: reg1},
			)
		}
		if c.Queue != 0 {
			exprs = append(exprs, queue(c.Queue))
		}
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
	}
	return conn.Flush()
}

func queueNative(n uint16) expr.Any { return &expr.Queue{Num: n, Total: 1} }

// queueCompat is iptables' "-j NFQUEUE --queue-num n": struct xt_NFQ_info_v3 is
// the number, how many queues, and flags, padded to eight bytes.
func queueCompat(n uint16) expr.Any {
	const revision, queues = 3, 1
	info := binary.NativeEndian.AppendUint16(nil, n)
	info = binary.NativeEndian.AppendUint16(info, queues)
	padded := xt.Unknown(append(info, 0, 0, 0, 0))
	return &expr.Target{Name: "NFQUEUE", Rev: revision, Info: &padded}
}
