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
	pods  []netip.Prefix // their addresses: all else that is on the wire as it is, is the nodes' own
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
	} else if !c.ofPod(p[12:16]) && !c.ofPod(p[16:20]) {
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

func (c *carried) ofPod(addr []byte) bool {
	return slices.ContainsFunc(c.pods, func(p netip.Prefix) bool { return p.Contains(netip.AddrFrom4([4]byte(addr))) })
}

// carriers names all that was found; nothing found is "".
func (c *carried) carriers() string { return strings.Join(slices.Sorted(maps.Keys(c.forms)), "; ") }
