package nft_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

func TestBarrier(t *testing.T) {
	t.Parallel()
	inNetwork(t, func(t *testing.T) {
		t.Helper()
		near, far := listenUDP(t, "10.0.0.1:0"), listenUDP(t, "10.1.0.1:0")
		passes := func() bool {
			_, _ = near.WriteTo([]byte("x"), far.LocalAddr()) // dropped on the way out: EPERM
			_ = far.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			_, _, err := far.ReadFrom(make([]byte, 1))
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			return err == nil
		}
		if !passes() {
			t.Error("nothing passes without a barrier")
		}
		for foreign, want := range map[string]bool{"10.2.0.0/16": true, "10.1.0.0/16": false, "10.1.0.1/32": false, "0.0.0.0/0": false} {
			if err := nft.ApplyBarrier("wall", []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix(foreign)}); err != nil {
				t.Error(err)
			}
			if got := passes(); got != want {
				t.Errorf("with a barrier against %s a datagram passes: %v", foreign, got)
			}
		}
		if err := nft.Delete("wall"); err != nil || !passes() {
			t.Errorf("after its removal: %v", err)
		}
	})
}

func listenUDP(t *testing.T, addr string) net.PacketConn {
	t.Helper()
	c, err := net.ListenPacket("udp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
