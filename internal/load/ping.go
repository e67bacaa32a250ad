package load

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/model"
)

// DialICMP opens a socket for ICMP echo requests as the engine does, for others
// to use: an unprivileged one where net.ipv4.ping_group_range lets this group
// have it, or else a raw one, which is handed everything that the peer sends
// and, of IPv4, with the IP header.
func DialICMP(to netip.Addr) (net.Conn, error) {
	fd, _, err := socket(ICMP, addressOf(netip.AddrPortFrom(to, 0)))
	switch {
	case errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM):
		return nil, &model.UnsupportedError{
			What: "ICMP echo", Missing: "this process may open neither a ping socket nor a raw one",
			Hint: `sysctl net.ipv4.ping_group_range="0 2147483647", or CAP_NET_RAW`,
		}
	case err != nil:
		return nil, fmt.Errorf("opening an ICMP socket to %s: %w", to, err)
	}
	file := os.NewFile(uintptr(fd), "icmp")
	conn, err := net.FileConn(file) // a copy
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("opening an ICMP socket to %s: %w", to, err)
	}
	return conn, nil
}
