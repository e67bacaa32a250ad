package sys

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TryLink makes and removes a device of a kind, e.g. "vxlan", in the calling
// thread's namespace, to see whether the kernel has it.
func TryLink(kind string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "probe0"
	local, remote := net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)
	links := map[string]netlink.Link{
		"veth":      &netlink.Veth{LinkAttrs: attrs, PeerName: "probe1"},
		"bridge":    &netlink.Bridge{LinkAttrs: attrs},
		"vxlan":     &netlink.Vxlan{LinkAttrs: attrs, VxlanId: 1, Port: 4789},
		"geneve":    &netlink.Geneve{LinkAttrs: attrs, ID: 1, Remote: remote},
		"gre":       &netlink.Gretap{LinkAttrs: attrs, Local: local, Remote: remote},
		"ipip":      &netlink.Iptun{LinkAttrs: attrs, Local: local, Remote: remote},
		"wireguard": &netlink.Wireguard{LinkAttrs: attrs},
		"ifb":       &netlink.Ifb{LinkAttrs: attrs},
	}
	link, ok := links[kind]
	if !ok {
		return fmt.Errorf("making a %s device: not known", kind)
	}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("making a %s device: %w", kind, err)
	}
	return netlink.LinkDel(link)
}

// Lacks says whether an error means that the kernel does not have what was
// asked for.
func Lacks(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT)
}

// TryQdisc puts netem, tbf or prio on loopback, in the calling thread's namespace,
// to see whether the kernel has it.
func TryQdisc(kind string) error {
	attrs := netlink.QdiscAttrs{LinkIndex: 1, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	qdiscs := map[string]netlink.Qdisc{
		"netem": netlink.NewNetem(attrs, netlink.NetemQdiscAttrs{Latency: 1000}),
		"prio":  netlink.NewPrio(attrs),
		"tbf":   &netlink.Tbf{QdiscAttrs: attrs, Rate: 1 << 20, Limit: 1 << 20, Buffer: 1 << 20},
	}
	qdisc, ok := qdiscs[kind]
	if !ok {
		return fmt.Errorf("making a %s queue: not known", kind)
	}
	if err := netlink.QdiscAdd(qdisc); err != nil {
		return fmt.Errorf("making a %s queue: %w", kind, err)
	}
	return netlink.QdiscDel(qdisc)
}

// TryEpollPwait2 says whether the kernel can wait for events with nanosecond
// timeouts (Linux 5.11).
func TryEpollPwait2() error {
	const noDescriptor = ^uintptr(0)
	_, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, noDescriptor, 0, 0, 0, 0, 0)
	if errors.Is(errno, unix.ENOSYS) {
		return errors.New("the kernel has no epoll_pwait2")
	}
	return nil
}

// TryTun opens the device that user-space tunnels need.
func TryTun() error {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("opening the tunnel device: %w", err)
	}
	return f.Close()
}

// OpenFilesLimit is how many files this process may open at most.
func OpenFilesLimit() (uint64, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	return l.Max, nil
}
