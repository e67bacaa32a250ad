package wan

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// Probe is what is sent through a link to see what it does.
type Probe struct {
	From, To *sys.Netns
	Addr     netip.Addr // of To
	Count    int
	Gap      time.Duration
	// Bytes of a datagram's payload; at least 16.
	Bytes int
	// Patience is how long the last may take.
	Patience time.Duration
}

// Arrival is one datagram that came. Delay is from just before it was sent to
// when the receiver's kernel had it, both by the host's one clock.
type Arrival struct {
	Number int
	Delay  time.Duration
	At     int64 // when the receiver's kernel had it, on CLOCK_REALTIME
}

// Send sends numbered datagrams at even gaps and returns what came, in that
// order.
func (p Probe) Send(ctx context.Context) ([]Arrival, error) {
	in, err := socketIn(p.To)
	if err != nil {
		return nil, err
	}
	defer unix.Close(in) //nolint:errcheck // nothing was written to a file
	out, err := socketIn(p.From)
	if err != nil {
		return nil, err
	}
	defer unix.Close(out) //nolint:errcheck // as above
	port, err := p.listen(in)
	if err != nil {
		return nil, err
	}
	to := &unix.SockaddrInet4{Addr: p.Addr.As4(), Port: port}
	sent := make(chan error, 1)
	go func() { sent <- p.sendAll(ctx, out, to) }()
	got, err := p.receive(in)
	return got, errors.Join(err, <-sent)
}

func socketIn(ns *sys.Netns) (fd int, err error) {
	err = ns.Do(func() error {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("opening a socket for probes: %w", err)
	}
	return fd, nil
}

// listen binds the receiving socket and asks for time stamps.
func (p Probe) listen(fd int) (port int, err error) {
	const buffer = 32 << 20
	tick := unix.NsecToTimeval(int64(20 * time.Millisecond)) // how often it looks whether it is over
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		receiveBuffer(fd, buffer),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tick),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: p.Addr.As4()}),
	)
	if err != nil {
		return 0, fmt.Errorf("listening for probes on %s: %w", p.Addr, err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("listening for probes on %s: %w", p.Addr, err)
	}
	if v4, ok := name.(*unix.SockaddrInet4); ok {
		return v4.Port, nil
	}
	return 0, fmt.Errorf("listening for probes on %s: no IPv4 socket", p.Addr)
}

// receiveBuffer asks for more than anybody may have, which root gets.
func receiveBuffer(fd, bytes int) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes) == nil {
		return nil
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bytes)
}

const probeHeader = 16 // number and time

func (p Probe) sendAll(ctx context.Context, fd int, to unix.Sockaddr) error {
	b := make([]byte, max(p.Bytes, probeHeader))
	start := sys.Monotonic()
	for i := range p.Count {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := sys.SleepUntil(start + int64(i)*int64(p.Gap)); err != nil {
			return err
		}
		binary.BigEndian.PutUint64(b, uint64(i)) //nolint:gosec // from 0
		binary.BigEndian.PutUint64(b[8:], uint64(clock(unix.CLOCK_REALTIME)))
		if err := unix.Sendto(fd, b, 0, to); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("sending a probe to %s: %w", p.Addr, err)
		}
	}
	return nil
}

func (p Probe) receive(fd int) ([]Arrival, error) {
	var got []Arrival
	until := time.Now().Add(time.Duration(p.Count)*p.Gap + p.Patience)
	b, control := make([]byte, max(p.Bytes, probeHeader)), make([]byte, 128)
	for first := map[int]bool{}; time.Now().Before(until); {
		n, oob, _, _, err := unix.Recvmsg(fd, b, control, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return got, fmt.Errorf("receiving probes on %s: %w", p.Addr, err)
		}
		if n < probeHeader {
			continue
		}
		number, sent := int(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:])) //nolint:gosec // as they were sent
		at := stamp(control[:oob])
		got = append(got, Arrival{number, time.Duration(at - sent), at})
		first[number] = true
		if len(first) == p.Count {
			const straggle = 30 * time.Millisecond // duplicates of the last
			until = minTime(until, time.Now().Add(straggle))
		}
	}
	return got, nil
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// stamp is when the kernel had the datagram, by CLOCK_REALTIME.
func stamp(control []byte) int64 {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return clock(unix.CLOCK_REALTIME)
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			return int64(binary.NativeEndian.Uint64(m.Data))*int64(time.Second) + int64(binary.NativeEndian.Uint64(m.Data[8:])) //nolint:gosec // a clock
		}
	}
	return clock(unix.CLOCK_REALTIME)
}

// Summary is what arrivals say of a link.
type Summary struct {
	Lost, Reordered, Duplicated int
	Mean, P1, P50, P99          time.Duration
}

// Summarise counts what became of so many datagrams.
func Summarise(sent int, got []Arrival) Summary {
	var s Summary
	first := map[int]bool{}
	var delays []time.Duration
	highest := -1
	var sum time.Duration
	for _, a := range got {
		if first[a.Number] {
			s.Duplicated++
			continue
		}
		first[a.Number] = true
		if a.Number < highest {
			s.Reordered++
		}
		highest = max(highest, a.Number)
		delays = append(delays, a.Delay)
		sum += a.Delay
	}
	s.Lost = sent - len(first)
	if len(delays) == 0 {
		return s
	}
	slices.Sort(delays)
	at := func(q float64) time.Duration { return delays[int(q*float64(len(delays)-1)+0.5)] } //nolint:mnd // rounded
	s.Mean, s.P1, s.P50, s.P99 = sum/time.Duration(len(delays)), at(0.01), at(0.5), at(0.99)
	return s
}
