package load

import (
	"errors"
	"net/netip"
	"syscall"
	"unsafe"
)

// The engine's system calls. RawSyscall does not tell the Go scheduler: the
// worker's thread is its own, and the scheduler's book-keeping would only add
// to the time of each call. Run gives everything else another place to run.

const (
	sysEpollPwait2  = 441     // the same number on every architecture
	epollET         = 1 << 31 // the syscall package has EPOLLET as a negative number
	prSetTimerSlack = 29
)

// rawRead and rawWrite go straight to the socket: read and write would first go
// through what the kernel does for files.
func rawRead(fd int, b []byte) (int, syscall.Errno) { return transfer(syscall.SYS_RECVFROM, fd, b, 0) }

func rawWrite(fd int, b []byte) (int, syscall.Errno) {
	return transfer(syscall.SYS_SENDTO, fd, b, syscall.MSG_NOSIGNAL)
}

func transfer(call uintptr, fd int, b []byte, flags uintptr) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0) //nolint:gosec // G103: the kernel keeps to the slice, during the call
	return int(n), errno
}

// rawReceive reads a datagram and when the kernel received it, in nanoseconds
// of CLOCK_REALTIME; 0: it does not say.
func rawReceive(fd int, b []byte, control *[64]byte) (n int, stamp int64, errno syscall.Errno) {
	iov := syscall.Iovec{Base: unsafe.SliceData(b), Len: uint64(len(b))} //nolint:gosec // G103: the kernel keeps to the slice, during the call
	msg := syscall.Msghdr{Iov: &iov, Iovlen: 1, Control: &control[0], Controllen: uint64(len(control))}
	r, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), 0) //nolint:gosec // G103: the kernel keeps to the buffers, during the call
	const header = syscall.SizeofCmsghdr
	if h := (*syscall.Cmsghdr)(unsafe.Pointer(control)); errno == 0 && msg.Controllen >= header+16 && h.Level == syscall.SOL_SOCKET && h.Type == syscall.SCM_TIMESTAMPNS { //nolint:gosec // G103: as the kernel has laid it out
		stamp = (*syscall.Timespec)(unsafe.Pointer(&control[header])).Nano() //nolint:gosec // G103: as above
	}
	return int(r), stamp, errno
}

// setTimerSlack makes this thread's timers fire on time: the default slack of
// 50 us is as long as what is measured. Without it only precision is lost,
// which lateness shows.
func setTimerSlack() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, 1, 0)
}

// poller is an epoll set.
type poller struct {
	fd     int
	events []syscall.EpollEvent
	// coarse is set where the kernel (before 5.11) has no epoll_pwait2: waits
	// are then whole milliseconds, rounded down, and the rest is spun away.
	coarse bool
}

// wait returns what has happened within ns nanoseconds, at the latest then.
func (p *poller) wait(ns int64) []syscall.EpollEvent {
	n, errno := uintptr(0), syscall.ENOSYS
	set, room := uintptr(p.fd), uintptr(len(p.events))
	if !p.coarse {
		ts := syscall.NsecToTimespec(ns)
		n, _, errno = syscall.RawSyscall6(sysEpollPwait2, set, uintptr(unsafe.Pointer(unsafe.SliceData(p.events))), room, uintptr(unsafe.Pointer(&ts)), 0, 0) //nolint:gosec // G103: the kernel keeps to the slice, during the call
		p.coarse = errno == syscall.ENOSYS
	}
	if p.coarse {
		n, _, errno = syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, set, uintptr(unsafe.Pointer(unsafe.SliceData(p.events))), room, uintptr(ns/1e6), 0, 0) //nolint:gosec // G103, G115: as above; ns is not negative
	}
	if errno != 0 {
		return nil // interrupted
	}
	return p.events[:n]
}

// address is where a connection goes, as the kernel wants it.
type address struct {
	family int
	sock   syscall.Sockaddr
}

func addressOf(a netip.AddrPort) address {
	ip := a.Addr().Unmap()
	if ip.Is4() {
		return address{syscall.AF_INET, &syscall.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}}
	}
	return address{syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(a.Port()), Addr: ip.As16()}}
}

// socket makes a non-blocking socket of the network and starts connecting it.
func socket(network Network, to address) (fd int, opening bool, err error) {
	kind, proto := syscall.SOCK_STREAM, 0
	switch network {
	case TCP:
	case UDP:
		kind = syscall.SOCK_DGRAM
	case ICMP:
		kind, proto = syscall.SOCK_DGRAM, syscall.IPPROTO_ICMP
		if to.family == syscall.AF_INET6 {
			proto = syscall.IPPROTO_ICMPV6
		}
	}
	fd, err = syscall.Socket(to.family, kind|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, proto)
	if network == ICMP && errors.Is(err, syscall.EACCES) { // not in net.ipv4.ping_group_range
		fd, err = syscall.Socket(to.family, syscall.SOCK_RAW|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, proto)
	}
	if err != nil {
		return -1, false, err
	}
	if network == TCP {
		err = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	}
	if network != TCP {
		err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1)
	}
	if err == nil {
		err = syscall.Connect(fd, to.sock)
	}
	if err != nil && !errors.Is(err, syscall.EINPROGRESS) {
		_ = syscall.Close(fd) // nothing was sent on it
		return -1, false, err
	}
	return fd, err != nil, nil
}
