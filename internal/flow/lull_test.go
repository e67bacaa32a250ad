package flow

import (
	"errors"
	"net"
	"testing"
	"time"
)

func TestLullFor(t *testing.T) {
	t.Parallel()
	const ms, big = int64(time.Millisecond), 4 << 20
	for _, c := range []struct {
		bytes  int
		passed int64
		buffer int
		want   time.Duration
	}{
		{0, 20 * ms, big, 0},
		{1000, 10 * ms, big, 0},
		{625_000, 10 * ms, big, 0},                           // 500 Mbit/s: 15,625 B in 250 us
		{1_250_000, 10 * ms, big, lullMost},                  // 1 Gbit/s: 31,250 B
		{12_500_000, 10 * ms, big, lullMost},                 // 10 Gbit/s: 312,500 B
		{125_000_000, 10 * ms, big, 83886 * time.Nanosecond}, // 100 Gbit/s: a quarter of the buffer
		{12_500_000, 10 * ms, 128 << 10, 26214 * time.Nanosecond},
		{12_500_000, 10 * ms, 64 << 10, 0},
		{12_500_000, 10 * ms, 0, 0},
	} {
		if got := lullFor(c.bytes, c.passed, c.buffer); got != c.want {
			t.Errorf("%d bytes in %s, buffer of %d: %s, not %s", c.bytes, time.Duration(c.passed), c.buffer, got, c.want)
		}
	}
}

// A stream that was fast and then trickles is heard of soon, to its last byte.
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
