package flow

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// A bulk sender fills its packets, although Go has every connection send at
// once whatever is written.
func TestSendFillsPackets(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()                                            //nolint:errcheck // of the test
	c, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr)) //nolint:errcheck,forcetypeassert // of the test
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStream(c, NewClock(), &Places{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // of the test
	atOnce := func() int {
		t.Helper()
		v, failure := syscall.GetsockoptInt(s.FD, syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
		if failure != nil {
			t.Fatal(failure)
		}
		return v
	}
	if atOnce() == 0 {
		t.Error("Go no longer sends at once: Send need not ask for the opposite")
	}
	err = s.Send(Source{Block: 1, Patience: time.Second, After: func(int64) bool {
		if atOnce() != 0 {
			t.Error("each write leaves a packet that is not full")
		}
		return false
	}})
	if err != nil {
		t.Error(err)
	}
}
