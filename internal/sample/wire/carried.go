package wire

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys/packet"
)

// carried takes packets out of what they are carried in, and watches them.
type carried struct {
	watch
	nodes map[netip.Addr]bool // what they send each other as it is, is not the pods'
	forms map[string]bool
}

// packet takes one packet of the underlay into account.
func (c *carried) packet(p []byte) {
	const header = 20
	if len(p) < header || p[0]>>4 != 4 {
		return
	}
	form := model.NoEncapsulation
	inner := p
	if e, in, ok := packet.Decapsulate(p); ok {
		form, inner = e.String(), in
	} else if c.nodes[netip.AddrFrom4([4]byte(p[12:16]))] && c.nodes[netip.AddrFrom4([4]byte(p[16:20]))] {
		form = ""
	}
	if form != "" {
		if c.forms == nil {
			c.forms = map[string]bool{}
		}
		c.forms[form] = true
	}
	c.watch.packet(inner)
}

// carriers names all that was found; nothing found is "".
func (c *carried) carriers() string { return strings.Join(slices.Sorted(maps.Keys(c.forms)), "; ") }
