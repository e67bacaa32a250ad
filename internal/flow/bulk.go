package flow

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const (
	// tick bounds how long a stream's end sleeps in the kernel, and so how late
	// it hears that it shall stop.
	tick = 20 * time.Millisecond

	soMaxPacingRate = 47
	sysMemfdCreate  = memfdCreate
	memfdCloexec    = 1
	// fileBlocks is how many blocks the file of sendfile has.
	fileBlocks = 8
)

// ErrStalled says that nothing could be sent or was received for too long.
var ErrStalled = errors.New("the stream stood still")

// Stream is one end of a TCP connection on which bytes are moved in bulk, with
// blocking system calls: that costs less than Go's poller.
type Stream struct {
	FD     int
	clock  Clock
	places *Places
	file   *os.File
}

// NewStream takes a connection over; the original is closed.
func NewStream(c *net.TCPConn, clock Clock, places *Places) (*Stream, error) {
	file, err := c.File()
	err = errors.Join(err, c.Close())
	if err != nil {
		return nil, fmt.Errorf("taking over a connection: %w", err)
	}
	s := &Stream{FD: int(file.Fd()), clock: clock, places: places, file: file} // blocking from here on
	every := syscall.NsecToTimeval(tick.Nanoseconds())
	for _, option := range []int{syscall.SO_RCVTIMEO, syscall.SO_SNDTIMEO} {
		if err := syscall.SetsockoptTimeval(s.FD, syscall.SOL_SOCKET, option, &every); err != nil {
			return nil, errors.Join(fmt.Errorf("bounding waits of a stream: %w", err), file.Close())
		}
	}
	return s, nil
}

// Close closes the connection; not while a method runs.
func (s *Stream) Close() error { return s.file.Close() }

// Info is what the kernel knows about the connection.
func (s *Stream) Info() (Info, error) { return tcpInfo(s.FD) }

// Pace limits what is sent to bytes per second; the kernel spreads it evenly.
func (s *Stream) Pace(rate uint64) error {
	_, _, errno := syscall.Syscall6(syscall.SYS_SETSOCKOPT, uintptr(s.FD), syscall.SOL_SOCKET, soMaxPacingRate,
		uintptr(unsafe.Pointer(&rate)), unsafe.Sizeof(rate), 0) //nolint:gosec // G103: the kernel reads it during the call
	if errno != 0 {
		return fmt.Errorf("pacing a stream at %d bytes/s: %w", rate, errno)
	}
	return nil
}

// CloseWrite ends what this end sends.
func (s *Stream) CloseWrite() error {
	if err := syscall.Shutdown(s.FD, syscall.SHUT_WR); err != nil {
		return fmt.Errorf("ending a stream: %w", err)
	}
	return nil
}

// Read reads what there is, for at most limit; no bytes are the stream's end.
func (s *Stream) Read(b []byte, limit int64) (int, error) {
	for {
		n, err := syscall.Read(s.FD, b)
		switch {
		case err == nil:
			return n, nil
		case waited(err):
			if s.clock.Now() >= limit {
				return 0, ErrStalled
			}
		default:
			return 0, err
		}
	}
}

// Poll reads what there is, without waiting: nothing is ErrStalled, no bytes are
// the stream's end.
func (s *Stream) Poll(b []byte) (int, error) {
	n, errno := s.now(syscall.SYS_RECVFROM, b, 0)
	switch {
	case errno == 0:
		return n, nil
	case waited(errno):
		return 0, ErrStalled
	}
	return 0, errno
}

// WriteAll writes everything, by limit.
func (s *Stream) WriteAll(b []byte, limit int64) error {
	for len(b) > 0 {
		n, err := syscall.Write(s.FD, b)
		switch {
		case err == nil:
			b = b[n:]
		case !waited(err):
			return err
		case s.clock.Now() >= limit:
			return ErrStalled
		}
	}
	return nil
}

func waited(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
}

// Source says how a stream is sent. After is called between writes with the
// time, and ends the sending with false.
type Source struct {
	Block    int
	Sendfile bool // from a file in memory, which is not copied
	Patience time.Duration
	After    func(now int64) bool
}

// Send writes blocks until After says false. A peer that takes nothing for as
// long as Patience is ErrStalled.
func (s *Stream) Send(o Source) error {
	block := make([]byte, o.Block)
	Fill(block)
	// What a write leaves over goes with the next one, as Nagle would have it: of
	// each 128 KiB the last 100 bytes would else be a packet of their own.
	if err := syscall.SetsockoptInt(s.FD, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 0); err != nil {
		return fmt.Errorf("having a stream fill its packets: %w", err)
	}
	room, leave := s.places.take()
	defer leave()
	write := func() syscall.Errno { return s.write(block, room) }
	if o.Sendfile {
		file, err := memoryFile(block)
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // it was only memory
		fd, at := int(file.Fd()), new(int64)
		write = func() syscall.Errno {
			if *at >= int64(o.Block)*fileBlocks {
				*at = 0
			}
			return s.sendfile(fd, at, o.Block, room)
		}
	}
	now := s.clock.Now()
	for moved := now; o.After(now); {
		errno := write()
		now = s.clock.Now()
		switch {
		case errno == 0:
			moved = now
		case !waited(errno):
			return errno
		case now-moved >= o.Patience.Nanoseconds():
			return ErrStalled
		}
	}
	return nil
}

// The three calls that move bytes; with room they do not tell the scheduler.

func (s *Stream) write(b []byte, room bool) (errno syscall.Errno) {
	at := unsafe.Pointer(unsafe.SliceData(b)) //nolint:gosec // G103: the kernel keeps to the slice, during the call
	if room {
		_, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(s.FD), uintptr(at), uintptr(len(b)))
		return errno
	}
	_, _, errno = syscall.Syscall(syscall.SYS_WRITE, uintptr(s.FD), uintptr(at), uintptr(len(b)))
	return errno
}

func (s *Stream) sendfile(fd int, offset *int64, size int, room bool) (errno syscall.Errno) {
	at := unsafe.Pointer(offset) //nolint:gosec // G103: the kernel moves it on, during the call
	if room {
		_, _, errno = syscall.RawSyscall6(syscall.SYS_SENDFILE, uintptr(s.FD), uintptr(fd), uintptr(at), uintptr(size), 0, 0)
		return errno
	}
	_, _, errno = syscall.Syscall6(syscall.SYS_SENDFILE, uintptr(s.FD), uintptr(fd), uintptr(at), uintptr(size), 0, 0)
	return errno
}

func (s *Stream) read(b []byte, flags uintptr, room bool) (n uintptr, errno syscall.Errno) {
	at := unsafe.Pointer(unsafe.SliceData(b)) //nolint:gosec // G103: the kernel keeps to the slice, during the call
	if room {
		n, _, errno = syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(s.FD), uintptr(at), uintptr(len(b)), flags, 0, 0)
		return n, errno
	}
	n, _, errno = syscall.Syscall6(syscall.SYS_RECVFROM, uintptr(s.FD), uintptr(at), uintptr(len(b)), flags, 0, 0)
	return n, errno
}

func memoryFile(block []byte) (*os.File, error) {
	name := [...]byte{'b', 0}
	fd, _, errno := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&name)), memfdCloexec, 0) //nolint:gosec // G103: the kernel reads the name during the call
	if errno != 0 {
		return nil, fmt.Errorf("making a file in memory: %w", errno)
	}
	file := os.NewFile(fd, "block")
	for range fileBlocks {
		if _, err := file.Write(block); err != nil {
			return nil, errors.Join(fmt.Errorf("filling a file in memory: %w", err), file.Close())
		}
	}
	return file, nil
}

// Sink says how a stream is received. Each is called with the time and what was
// received in all, after every read and at least every 20 ms; false ends the
// receiving.
type Sink struct {
	Block    int  // the most that one read takes
	Discard  bool // the kernel drops the bytes instead of copying them
	Patience time.Duration
	Each     func(now int64, total uint64) bool
}

// Receive counts bytes until the stream's end, or until Each says false. A peer
// that sends nothing for as long as Patience is ErrStalled.
func (s *Stream) Receive(o Sink) (total uint64, err error) {
	room, leave := s.places.take()
	defer leave()
	block, flags := make([]byte, o.Block), uintptr(0)
	if o.Discard {
		flags = syscall.MSG_TRUNC
	}
	now := s.clock.Now()
	more := newLull(s.FD, now)
	for moved := now; ; {
		n, errno := s.read(block, flags, room)
		now = s.clock.Now()
		switch {
		case errno == 0 && n == 0:
			o.Each(now, total)
			return total, nil
		case errno == 0:
			total += uint64(n)
			moved = now
		case !waited(errno):
			return total, errno
		case now-moved >= o.Patience.Nanoseconds():
			return total, ErrStalled
		default:
			n = 0
		}
		if !o.Each(now, total) {
			return total, nil
		}
		more.came(now, int(n))
		if int(n) < len(block) { // that was all there is
			more.sleep(room)
		}
	}
}

// Say sends a short message if there is room for it; without, it is not sent.
func (s *Stream) Say(b []byte) error {
	n, errno := s.now(syscall.SYS_SENDTO, b, syscall.MSG_NOSIGNAL)
	switch {
	case errno == syscall.EAGAIN || errno == 0 && n == len(b):
		return nil
	case errno == 0:
		return io.ErrShortWrite
	}
	return errno
}

// Ended says whether the peer has closed its direction, of one that sends
// nothing else.
func (s *Stream) Ended() bool {
	var b [1]byte
	_, errno := s.now(syscall.SYS_RECVFROM, b[:], syscall.MSG_PEEK)
	return errno != syscall.EAGAIN
}

// now does a call that does not wait.
func (s *Stream) now(call uintptr, b []byte, flags uintptr) (int, syscall.Errno) {
	n, _, errno := syscall.Syscall6(call, uintptr(s.FD), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags|syscall.MSG_DONTWAIT, 0, 0) //nolint:gosec // G103: the kernel keeps to the slice, during the call
	return int(n), errno
}

// Fill writes the pattern that bodies and streams have: no two bytes in a row
// are alike, and no short period.
func Fill(b []byte) {
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
}
