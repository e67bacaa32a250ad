package flow

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

func TestGathered(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	for _, c := range []struct {
		bytes  int
		passed int64
		want   int
	}{
		{0, 20 * ms, 1}, {1000, 10 * ms, 16}, // 0.8 Mbit/s: 25 B in 250 us
		{1_250_000, 10 * ms, 16 << 10},   // 1 Gbit/s: 31,250 B
		{12_500_000, 10 * ms, 256 << 10}, // 10 Gbit/s: 312,500 B
		{1 << 30, 10 * ms, gatherMost},
	} {
		if got := gathered(c.bytes, c.passed, gatherMost); got != c.want {
			t.Errorf("%d bytes in %s: %d, not %d", c.bytes, time.Duration(c.passed), got, c.want)
		}
	}
}

// A stream that was fast and then trickles is heard of soon, to its last byte,
// and afterwards any byte makes the socket readable again.
func TestReceiveAfterARush(t *testing.T) {
	t.Parallel()
	client, server := pair(t)
	const rush, few = 64 << 20, 10
	sent := make(chan error, 1)
	last := make(chan struct{})
	go func() {
		_, err := client.Write(make([]byte, rush))
		_, more := client.Write(make([]byte, few))
		select {
		case <-last:
		case <-time.After(10 * time.Second):
			more = errors.Join(more, errors.New("the last bytes were not heard of while the stream stood still"))
		}
		sent <- errors.Join(err, more, client.Close())
	}()
	s, err := NewStream(server, NewClock(), &Places{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the test is over
	heard := false
	total, err := s.Receive(Sink{Block: 128 << 10, Patience: 20 * time.Second, Each: func(_ int64, total uint64) bool {
		if total == rush+few && !heard {
			heard = true
			close(last)
		}
		return true
	}})
	if err = errors.Join(err, <-sent); err != nil || total != rush+few {
		t.Errorf("%d of %d bytes: %v", total, rush+few, err)
	}
	if mark, err := syscall.GetsockoptInt(s.FD, syscall.SOL_SOCKET, syscall.SO_RCVLOWAT); mark != 1 || err != nil {
		t.Errorf("afterwards %d bytes make it readable: %v", mark, err)
	}
}

// pair is both ends of a TCP connection over loopback.
func pair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // one connection is enough
	to, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("listening at %s", l.Addr())
	}
	if client, err = net.DialTCP("tcp4", nil, to); err != nil {
		t.Fatal(err)
	}
	if server, err = l.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	return client, server
}
