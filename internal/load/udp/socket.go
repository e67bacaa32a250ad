package udp

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/windtunnel/windtunnel/internal/flow"
)

const (
	catchUp     = 16   // datagrams that are late and go together
	maxTogether = 1024 // datagrams of one call: UIO_MAXIOV
	maxSegments = 64   // of one buffer: UDP_MAX_SEGMENTS of older kernels

	udpSegment      = 103
	ipMTU           = 14
	ipv6MTU         = 24
	headers4        = 20 + 8
	headers6        = 40 + 8
	prSetTimerSlack = 29
	clockMonotonic  = 1
	timerAbstime    = 1
)

// socket is a connected UDP socket with blocking system calls.
type socket struct {
	file  *os.File
	fd    int
	id    uint64 // of the flow, random: nobody else can count to it
	six   bool
	gso   bool
	size  int    // of a datagram
	many  []byte // datagrams, one after the other
	heads *flow.Batch
	buf   []byte
}

func open(ctx context.Context, to netip.AddrPort) (*socket, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "udp", to.String())
	if err != nil {
		return nil, fmt.Errorf("opening a UDP socket to %s: %w", to, err)
	}
	udp, ok := c.(*net.UDPConn)
	if !ok {
		return nil, fmt.Errorf("opening a UDP socket to %s: got a %T", to, c)
	}
	file, err := udp.File()
	err = errors.Join(err, c.Close())
	if err != nil {
		return nil, fmt.Errorf("taking over a UDP socket: %w", err)
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	s := &socket{file: file, fd: int(file.Fd()), id: binary.BigEndian.Uint64(id[:]), six: to.Addr().Unmap().Is6(), buf: make([]byte, flow.AccountSize)}
	every := syscall.NsecToTimeval(nap)
	if err := syscall.SetsockoptTimeval(s.fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &every); err != nil {
		return nil, errors.Join(fmt.Errorf("bounding waits of a UDP socket: %w", err), file.Close())
	}
	return s, nil
}

func (s *socket) close() { _ = s.file.Close() } // nothing waits in it that matters

// room is what fits the path's MTU, as far as the kernel knows it.
func (s *socket) room() (int, error) {
	level, option, headers := syscall.IPPROTO_IP, ipMTU, headers4
	if s.six {
		level, option, headers = syscall.IPPROTO_IPV6, ipv6MTU, headers6
	}
	mtu, err := syscall.GetsockoptInt(s.fd, level, option)
	if err != nil {
		return 0, fmt.Errorf("asking for the path's MTU: %w", err)
	}
	if mtu-headers < flow.DataHeader {
		return 0, fmt.Errorf("the path's MTU of %d bytes leaves no room for a datagram", mtu)
	}
	return min(mtu-headers, flow.MaxDatagram), nil
}

// segment lets the kernel cut buffers into datagrams of that size.
func (s *socket) segment(size int) error {
	if err := syscall.SetsockoptInt(s.fd, syscall.IPPROTO_UDP, udpSegment, size); err != nil {
		return fmt.Errorf("switching on segmentation offload (UDP_SEGMENT, since Linux 4.18): %w", err)
	}
	s.gso = true
	return nil
}

// allocate makes room for datagrams that go together.
func (s *socket) allocate(size, batch int) {
	if !s.gso {
		batch = max(batch, catchUp)
	}
	s.size, s.many = size, make([]byte, size*batch)
	flow.Fill(s.many)
	s.heads = flow.NewBatch(s.many, size)
}

func (s *socket) batch() int { return s.heads.Len() }

func (s *socket) datagram(i int) []byte { return s.many[i*s.size:][:s.size] }

// send sends the first n datagrams and returns how many the kernel took. That
// an earlier one was refused is told by the error of a later; and what has no
// room or may not be sent is not. An error says that none ever can be.
func (s *socket) send(n int) (int, error) {
	done := 0
	for tries := 0; done < n && tries < 3; {
		took, errno := s.write(done, n)
		if errno == 0 {
			done += took
			continue
		}
		if errno == syscall.EMSGSIZE || errno == syscall.EINVAL {
			return done, fmt.Errorf("sending a datagram of %d bytes: %w (a smaller size fits)", s.size, errno)
		}
		tries++
	}
	return done, nil
}

func (s *socket) write(from, to int) (int, syscall.Errno) {
	switch {
	case s.gso:
		_, errno := s.push(s.many[from*s.size : to*s.size])
		return to - from, errno
	case to-from == 1:
		_, errno := s.push(s.datagram(from))
		return 1, errno
	}
	return s.heads.Send(s.fd, from, to)
}

func (s *socket) push(b []byte) (uintptr, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))) //nolint:gosec // G103: the kernel keeps to the slice, during the call
	return n, errno
}

var errSilent = errors.New("no answer")

// question sends b and waits for what comes back, until a moment. With
// segmentation on, it has at most the size of a datagram, or is sent in pieces.
func (s *socket) question(b []byte, clock flow.Clock, until int64, stop *atomic.Bool) ([]byte, error) {
	if s.gso {
		if err := syscall.SetsockoptInt(s.fd, syscall.IPPROTO_UDP, udpSegment, 0); err != nil {
			return nil, fmt.Errorf("switching off segmentation offload: %w", err)
		}
		defer func() { _ = syscall.SetsockoptInt(s.fd, syscall.IPPROTO_UDP, udpSegment, s.size) }() // it worked before
	}
	if _, err := syscall.Write(s.fd, b); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("asking the receiver: %w", err)
	}
	last := errSilent
	for !stop.Load() && clock.Now() < until {
		n, err := syscall.Read(s.fd, s.buf)
		switch {
		case err == nil:
			return s.buf[:n], nil
		case errors.Is(err, syscall.ECONNREFUSED):
			last = err
			sleepUntil(clock.Now() + nap)
		case !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR):
			return nil, fmt.Errorf("hearing from the receiver: %w", err)
		}
	}
	return nil, last
}

// setTimerSlack makes this thread's timers fire on time; without it only
// precision is lost, which lateness shows.
func setTimerSlack() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, 1, 0)
}

// sleepUntil sleeps until a moment on CLOCK_MONOTONIC, or less if a signal comes.
func sleepUntil(moment int64) {
	ts := syscall.NsecToTimespec(max(moment, int64(time.Nanosecond)))
	_, _, _ = syscall.RawSyscall6(syscall.SYS_CLOCK_NANOSLEEP, clockMonotonic, timerAbstime, uintptr(unsafe.Pointer(&ts)), 0, 0, 0) //nolint:gosec // G103: the kernel reads it during the call
}
