package sys

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// Describe lists what is configured in the calling thread's namespace, one
// line for each device, address, route, rule and queue, sorted: two lists
// differ where the namespaces do. Firewall tables are package nft's to tell.
func Describe() ([]string, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("listing devices: %w", err)
	}
	var lines []string
	for _, l := range links {
		if kernelsOwn(l.Attrs().Name) {
			continue
		}
		of, failure := describeLink(l)
		if failure != nil {
			return nil, failure
		}
		lines = append(lines, of...)
	}
	const allTables = 0
	routes, err := dump(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: allTables}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	for _, r := range routes {
		lines = append(lines, "route "+r.String())
	}
	rules, err := dump(func() ([]netlink.Rule, error) { return netlink.RuleList(netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("listing routing rules: %w", err)
	}
	for _, r := range rules {
		lines = append(lines, fmt.Sprintf("rule %s mark %#x", r.String(), r.Mark))
	}
	for _, key := range []string{"ip_forward", "ip_nonlocal_bind", "conf/all/route_localnet", "conf/all/rp_filter", "conf/eth0/route_localnet", "conf/eth0/rp_filter"} {
		if value, err := ReadFile("/proc/sys/net/ipv4/" + key); err == nil { // else there is no eth0
			lines = append(lines, fmt.Sprintf("sysctl net.ipv4.%s = %s", strings.ReplaceAll(key, "/", "."), strings.TrimSpace(string(value))))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// kernelsOwn are devices that a tunnel's module makes in every namespace when it
// is loaded: nobody's configuration.
func kernelsOwn(device string) bool {
	return slices.Contains([]string{"tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip6tnl0"}, device)
}

func describeLink(l netlink.Link) ([]string, error) {
	a := l.Attrs()
	xdp := a.Xdp != nil && a.Xdp.Attached
	flags := a.Flags &^ net.FlagRunning // says what the kernel has noticed so far, not what is configured
	lines := []string{fmt.Sprintf("device %s (%s) MTU %d master %d %s MAC %s XDP %t", a.Name, l.Type(), a.MTU, a.MasterIndex, flags, a.HardwareAddr, xdp)}
	addrs, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(l, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses of %s: %w", a.Name, err)
	}
	for _, addr := range addrs {
		lines = append(lines, "address "+addr.IPNet.String()+" on "+a.Name)
	}
	neighbours, err := dump(func() ([]netlink.Neigh, error) { return netlink.NeighList(a.Index, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("listing neighbours on %s: %w", a.Name, err)
	}
	for _, n := range neighbours {
		if n.State == netlink.NUD_PERMANENT { // others come and go
			lines = append(lines, fmt.Sprintf("neighbour %s at %s on %s", n.IP, n.HardwareAddr, a.Name))
		}
	}
	if value, failure := ReadFile("/proc/sys/net/ipv4/conf/" + a.Name + "/proxy_arp"); failure == nil {
		lines = append(lines, fmt.Sprintf("sysctl proxy_arp of %s = %s", a.Name, strings.TrimSpace(string(value))))
	}
	qdiscs, err := dump(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(l) })
	if err != nil {
		return nil, fmt.Errorf("listing queues of %s: %w", a.Name, err)
	}
	for _, q := range qdiscs {
		lines = append(lines, fmt.Sprintf("queue %s of %s", q.Type(), a.Name))
	}
	return lines, nil
}
