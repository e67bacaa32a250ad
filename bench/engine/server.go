package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// fastAnswer is what the fast server says to every request.
const fastAnswer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 25\r\n\r\nhello, world! 0123456789\n"

const (
	maxStamps  = 4 << 20 // arrivals that are kept; further ones are only counted
	maxBatch   = 64      // answers in one write: no client here pipelines as many
	readBuffer = 64 << 10
	listenLog  = 4096
	epollEvent = 256
	epollET    = 1 << 31 // the syscall package has EPOLLET as a negative number
)

// fastServer is the server that is faster than what it serves: one thread, one
// read and one write for each request, or fewer. It knows no HTTP/1.1 but the
// empty line that ends a request without a body, of HTTP/2 hardly more, and
// always gives the same answer.
//
// Where it stamps, it keeps when the kernel received each request
// (SO_TIMESTAMPNS, CLOCK_REALTIME): before any queue for the server's CPU, so
// that the stamps tell of the client and not of the server.
type fastServer struct {
	epoll, listener int
	count           atomic.Uint64 // requests
	stamping        bool
	stamps          []int64
	stamped         atomic.Uint64 // how many of stamps are filled in
	in, out         []byte
	grpc            map[int]*grpcConn // by descriptor; nil: it speaks HTTP/1.1
	grpcAnswer      grpcAnswer
	control         [64]byte
}

// listenFast opens the server's socket.
func listenFast(addr netip.AddrPort, mode string) (*fastServer, error) {
	s := &fastServer{stamping: mode == modeStamps, in: make([]byte, readBuffer), out: bytes.Repeat([]byte(fastAnswer), maxBatch)}
	if s.stamping {
		s.stamps = make([]int64, maxStamps)
	}
	if mode == modeGRPC {
		s.grpc, s.grpcAnswer, s.out = map[int]*grpcConn{}, newGRPCAnswer(), nil
	}
	var err error
	if s.listener, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("opening a socket: %w", err)
	}
	if err = syscall.SetsockoptInt(s.listener, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return nil, fmt.Errorf("setting SO_REUSEADDR: %w", err)
	}
	if s.stamping { // connections inherit it
		if err = syscall.SetsockoptInt(s.listener, syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1); err != nil {
			return nil, fmt.Errorf("asking the kernel for time stamps: %w", err)
		}
	}
	at := &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	if err = syscall.Bind(s.listener, at); err != nil {
		return nil, fmt.Errorf("binding to %s: %w", addr, err)
	}
	if err = syscall.Listen(s.listener, listenLog); err != nil {
		return nil, fmt.Errorf("listening on %s: %w", addr, err)
	}
	if s.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("making an epoll set: %w", err)
	}
	return s, s.watch(s.listener, syscall.EPOLLIN)
}

func (s *fastServer) watch(fd int, events uint32) error {
	e := syscall.EpollEvent{Events: events, Fd: int32(fd)} //nolint:gosec // a descriptor is small
	if err := syscall.EpollCtl(s.epoll, syscall.EPOLL_CTL_ADD, fd, &e); err != nil {
		return fmt.Errorf("watching a socket: %w", err)
	}
	return nil
}

// loop serves for ever, on a thread of its own.
func (s *fastServer) loop() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	events := make([]syscall.EpollEvent, epollEvent)
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(s.epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), ^uintptr(0), 0, 0) //nolint:gosec // G103: the kernel keeps to the slice, during the call
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return fmt.Errorf("waiting for requests: %w", errno)
		}
		for _, e := range events[:n] {
			if int(e.Fd) != s.listener {
				s.serve(int(e.Fd))
				continue
			}
			if err := s.accept(); err != nil {
				return err
			}
		}
	}
}

func (s *fastServer) accept() error {
	for {
		fd, _, err := syscall.Accept4(s.listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if errors.Is(err, syscall.EAGAIN) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accepting: %w", err)
		}
		if err = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
			return fmt.Errorf("setting TCP_NODELAY: %w", err)
		}
		if s.grpc != nil {
			s.grpc[fd] = &grpcConn{}
		}
		if err = s.watch(fd, syscall.EPOLLIN|epollET); err != nil {
			return err
		}
	}
}

// serve answers what has come in on a connection.
func (s *fastServer) serve(fd int) {
	for {
		n, stamp, errno := s.receive(fd)
		if errno == syscall.EAGAIN {
			return
		}
		if errno != 0 || n == 0 {
			_ = syscall.Close(fd) // the client has gone
			return
		}
		requests, answers := s.answers(fd, s.in[:n])
		s.note(requests, stamp)
		if len(answers) > 0 {
			_, _, _ = syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&answers[0])), uintptr(len(answers)), syscall.MSG_NOSIGNAL, 0, 0) //nolint:gosec // G103: as above; an answer fits into any socket's buffer
		}
		if n < len(s.in) {
			return
		}
	}
}

// answers are what the bytes ask for.
func (s *fastServer) answers(fd int, b []byte) (requests int, out []byte) {
	if s.grpc == nil {
		requests = bytes.Count(b, []byte("\r\n\r\n"))
		return requests, s.out[:min(requests, maxBatch)*len(fastAnswer)]
	}
	requests, s.out = s.grpc[fd].feed(b, s.grpcAnswer, s.out[:0])
	return requests, s.out
}

// receive reads, and returns when the kernel received the last of it; 0: it
// was not asked.
func (s *fastServer) receive(fd int) (n int, stamp int64, errno syscall.Errno) {
	if !s.stamping {
		r, _, failure := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&s.in[0])), uintptr(len(s.in)), 0, 0, 0) //nolint:gosec // G103: as above
		return int(r), 0, failure
	}
	iov := syscall.Iovec{Base: &s.in[0], Len: uint64(len(s.in))}
	msg := syscall.Msghdr{Iov: &iov, Iovlen: 1, Control: &s.control[0], Controllen: uint64(len(s.control))}
	r, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), 0) //nolint:gosec // G103: as above
	const header = syscall.SizeofCmsghdr
	h := (*syscall.Cmsghdr)(unsafe.Pointer(&s.control[0])) //nolint:gosec // G103: as the kernel lays it out
	if errno == 0 && msg.Controllen >= header+16 && h.Level == syscall.SOL_SOCKET && h.Type == syscall.SCM_TIMESTAMPNS {
		stamp = (*syscall.Timespec)(unsafe.Pointer(&s.control[header])).Nano() //nolint:gosec // G103: as above
	}
	return int(r), stamp, errno
}

// note counts requests that have come in together.
func (s *fastServer) note(requests int, stamp int64) {
	s.count.Add(uint64(requests)) //nolint:gosec // not negative
	if !s.stamping {
		return
	}
	at := s.stamped.Load()
	for range requests {
		if at < maxStamps {
			s.stamps[at] = stamp
			at++
		}
	}
	s.stamped.Store(at)
}

// The modes that the server is started in.
const (
	modeHTTP   = "http"
	modeStamps = "stamps" // HTTP/1.1, and keeps the arrivals
	modeGRPC   = "grpc"
	modeGo     = "go" // gRPC by grpc-go: see serveGo
)

// The questions that the server is asked over its standard input, a line each;
// it answers each with a line of JSON.
const (
	askCount  = "count"  // requests so far
	askStamps = "stamps" // all stamps so far
)

// serveFast serves until its standard input ends.
func serveFast(addr netip.AddrPort, mode string, in io.Reader, out io.Writer) error {
	if mode == modeGo {
		return serveGo(addr, in, out)
	}
	s, err := listenFast(addr, mode)
	if err != nil {
		return err
	}
	// The loop never gives its place to others, and never stops for a collection
	// of garbage: there is next to none.
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(-1)
	failed := make(chan error, 1)
	go func() { failed <- s.loop() }()
	asked := make(chan error, 1)
	go func() { asked <- s.answer(in, out) }()
	select {
	case err = <-failed:
	case err = <-asked:
	}
	return err
}

func (s *fastServer) answer(in io.Reader, out io.Writer) error {
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	for lines.Scan() {
		var err error
		switch lines.Text() {
		case askCount:
			err = answers.Encode(s.count.Load())
		case askStamps:
			err = answers.Encode(s.stamps[:s.stamped.Load()])
		default:
			err = fmt.Errorf("unknown question %q", lines.Text())
		}
		if err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
	return lines.Err()
}
