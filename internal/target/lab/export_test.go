package lab

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// NetnsOf is the namespace of a node.
func NetnsOf(t *testing.T, s model.Site, name string) *sys.Netns {
	t.Helper()
	own, ok := s.(*site)
	if !ok {
		t.Fatalf("%T is not a site of the lab", s)
	}
	for _, n := range own.nodes {
		if n.name == name {
			return n.ns
		}
	}
	t.Fatalf("no node %s", name)
	return nil
}

// KillDelayLine kills the process that emulates links; false if there is none.
func KillDelayLine(t *testing.T, s model.Site) bool {
	t.Helper()
	own, ok := s.(*site)
	if !ok || own.links.process == nil {
		return false
	}
	if err := own.links.process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-own.links.process.Done()
	return true
}

// PathMTU is what the kernel knows of a connection's path.
func PathMTU(c net.Conn) (mtu int, err error) {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return 0, errors.New("no socket")
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failure error
	err = control.Control(func(fd uintptr) { mtu, failure = unix.GetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU) })
	return mtu, errors.Join(err, failure)
}
