package packet_test

import (
	"bytes"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/packet"
)

// inNetwork runs f in a new network namespace with a loopback device.
func inNetwork(t *testing.T, f func() error) {
	t.Helper()
	ns, err := sys.NewNetns()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("needs CAP_SYS_ADMIN; run in `unshare -Urn`")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close() //nolint:errcheck // nothing depends on it
	err = ns.Do(func() error {
		if failure := sys.LoopbackUp(); failure != nil {
			return failure
		}
		return f()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestReceivesWhatCameBeforeStop(t *testing.T) {
	t.Parallel()
	inNetwork(t, func() error {
		s, err := packet.Listen("lo")
		if err != nil {
			return err
		}
		if s.MTU() != 65536 {
			t.Errorf("MTU %d", s.MTU())
		}
		c, err := net.Dial("udp4", "127.0.0.1:9")
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // nothing depends on it
		if _, err = c.Write([]byte("payload")); err != nil {
			return err
		}
		if err = s.Stop(); err != nil { // before Receive: all is still to be read
			return err
		}
		n := 0
		err = s.Receive(func(p []byte) {
			if p[0]>>4 == 4 && p[9] == 17 && bytes.HasSuffix(p, []byte("payload")) {
				n++
			}
		})
		if n != 2 { // on loopback a packet leaves and comes
			t.Errorf("%d packets", n)
		}
		return errors.Join(err, s.Close(), s.Close())
	})
}

func TestCloseEndsReceive(t *testing.T) {
	t.Parallel()
	inNetwork(t, func() error {
		s, err := packet.Listen("lo")
		if err != nil {
			return err
		}
		done := make(chan error)
		go func() { done <- s.Receive(func([]byte) {}) }()
		return errors.Join(s.Close(), <-done)
	})
}

func TestNoDevice(t *testing.T) {
	t.Parallel()
	if _, err := packet.Listen("nothing0"); err == nil {
		t.Error("no error")
	}
}
