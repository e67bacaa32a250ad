package wan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	batch = 64 // messages read at once
	// maxHeld is how many packets the kernel holds for one direction: 10 Gbit/s
	// for 300 ms, in packets of 1,500 bytes.
	maxHeld = 262_144
	// wantedBuffer is for messages that wait to be read.
	wantedBuffer = 64 << 20
	headBytes    = 64
	wholeBytes   = 0xffff
)

// socket is a queue of the kernel, read in batches.
type socket struct {
	fd      int
	queue   uint16
	buffers []byte
	size    int
	vectors []unix.Iovec
	headers []mmsghdr
}

type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

// openSocket binds a queue of the calling thread's namespace.
func openSocket(number uint16, s Settings) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("opening NFQUEUE: %w", err)
	}
	q := &socket{fd: fd, queue: number, size: 2 << 10}
	copied := uint32(headBytes)
	if s.Duplicate > 0 {
		q.size, copied = 80<<10, wholeBytes
	}
	if err = q.configure(s, copied); err != nil {
		return nil, errors.Join(fmt.Errorf("binding queue %d: %w", number, err), unix.Close(fd))
	}
	q.buffers = make([]byte, batch*q.size)
	q.vectors, q.headers = make([]unix.Iovec, batch), make([]mmsghdr, batch)
	for i := range q.headers {
		q.vectors[i].Base = &q.buffers[i*q.size]
		q.vectors[i].SetLen(q.size)
		q.headers[i].hdr.Iov = &q.vectors[i]
		q.headers[i].hdr.SetIovlen(1)
	}
	return q, nil
}

func (q *socket) configure(s Settings, copied uint32) error {
	if err := unix.Bind(q.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	if err := receiveBuffer(q.fd, wantedBuffer); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(q.fd, unix.SOL_NETLINK, unix.NETLINK_NO_ENOBUFS, 1); err != nil {
		return err
	}
	flags := uint32(flagSegments)
	if s.Single() {
		flags = 0
	}
	requests := [][]byte{
		attribute(nil, configCommand, commandBind, 0, 0, 0),
		attribute(nil, configParams, append(be32(copied), copyPacket)...),
		attribute(nil, configMaxLen, be32(maxHeld)...),
		attribute(attribute(nil, configMask, be32(flagSegments)...), configFlags, be32(flags)...),
	}
	for _, r := range requests {
		if err := q.ask(r); err != nil {
			return err
		}
	}
	return nil
}

// ask sends a configuration and waits for the kernel's answer.
func (q *socket) ask(attrs []byte) error {
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := unix.Sendto(q.fd, message(nil, msgConfig, unix.NLM_F_ACK, q.queue, attrs), 0, to); err != nil {
		return err
	}
	b := make([]byte, 4<<10)
	for {
		n, _, err := unix.Recvfrom(q.fd, b, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n >= netlinkHeader+4 && binary.NativeEndian.Uint16(b[4:]) == unix.NLMSG_ERROR:
			if code := -int32(binary.NativeEndian.Uint32(b[netlinkHeader:])); code != 0 { //nolint:gosec // the kernel's negative errno
				return unix.Errno(code) //nolint:gosec // positive
			}
			return nil
		}
	}
}

// read calls got for every packet message that waits; the packet's bytes are
// only valid in got.
func (q *socket) read(got func(p packet)) error {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(q.fd), uintptr(unsafe.Pointer(&q.headers[0])), batch, unix.MSG_DONTWAIT, 0, 0) //nolint:gosec // no wrapper reads many
	if errno == unix.EAGAIN || errno == unix.EINTR || errno == unix.ENOBUFS {
		return nil
	}
	if errno != 0 {
		return fmt.Errorf("reading queue %d: %w", q.queue, errno)
	}
	for i := range int(n) {
		if p, err := parsePacket(q.buffers[i*q.size : i*q.size+int(q.headers[i].n)]); err == nil {
			got(p)
		}
	}
	return nil
}

// write sends verdicts. The kernel acts on them before it returns. A packet
// that is gone, as its device is, is none of our business.
func (q *socket) write(b []byte) error {
	_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(q.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0) //nolint:gosec // no wrapper takes a connected netlink socket
	if errno != 0 && errno != unix.EINTR && errno != unix.ENOENT {
		return fmt.Errorf("answering queue %d: %w", q.queue, errno)
	}
	return nil
}

// wait returns when messages wait, or at a moment of CLOCK_MONOTONIC; 0: never.
func (q *socket) wait(until int64) error {
	fds := []unix.PollFd{{Fd: int32(q.fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor
	var timeout *unix.Timespec
	if until != 0 {
		left := until - clock(unix.CLOCK_MONOTONIC)
		if left <= 0 {
			return nil
		}
		t := unix.NsecToTimespec(left)
		timeout = &t
	}
	if _, err := unix.Ppoll(fds, timeout, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("waiting for queue %d: %w", q.queue, err)
	}
	return nil
}

func clock(which int32) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(which, &t); err != nil {
		return 0
	}
	return t.Nano()
}

// stampArrivals makes the kernel stamp packets when they arrive, for as long as
// the socket is open: what waits to be read is then not late for it.
func stampArrivals() (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("asking for time stamps: %w", err)
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return -1, errors.Join(fmt.Errorf("asking for time stamps: %w", err), unix.Close(fd))
	}
	return fd, nil
}

// slice is how long the line may run at a time: the shorter, the sooner the
// scheduler lets it run when it wakes (EEVDF, Linux 6.12).
const slice = 100_000 // nanoseconds

// hurry gives the calling thread what makes it run soon after it wakes: a short
// slice and the highest niceness. It says what it got. It never asks for
// SCHED_FIFO, which can bring a whole host to a halt.
func hurry() (got string, err error) {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return "", fmt.Errorf("asking for exact timers: %w", err)
	}
	const best = -20
	for _, nice := range []int32{best, 0} {
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: nice, Runtime: slice}
		if err := unix.SchedSetAttr(0, &attr, 0); err == nil {
			return fmt.Sprintf("slice of 100 us, nice %d", nice), nil
		}
	}
	return "as any process: no right to ask for more", nil
}

// leadGroup lets the whole process go before others where the scheduler weighs
// sessions and not threads (autogroup): niceness then says nothing outside of
// its own session. Where there is no such thing, or no right to it, nothing
// changes.
func leadGroup() {
	_ = os.WriteFile("/proc/self/autogroup", []byte("-20"), 0) // see above
}

// calm keeps the garbage collector from waking the process often.
func calm() {
	const percent = 1000
	debug.SetGCPercent(percent)
}
