package flow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

const (
	batchSize    = 32
	controlSize  = 128
	nameSize     = 28 // of the largest address
	packetRoom   = MaxDatagram + 1
	wantedBuffer = 8 << 20 // of datagrams that wait in the socket

	soTimestampns  = 35
	soRcvbufforce  = 33
	soMeminfo      = 55
	meminfoDrops   = 8
	meminfoFields  = 9
	ipPktinfo      = 8
	ipv6RecvInfo   = 49
	ipv6Info       = 50
	msgWaitForOne  = 0x10000
	controlHeader  = 16
	controlPadding = 8
)

// Packet is a datagram that has come in.
type Packet struct {
	Data   []byte
	From   Addr
	Came   int64 // by the kernel, nanoseconds since 1970; 0 if it does not say
	Device int   // index of the interface; 0: not known
}

// Addr is an address as the kernel writes it.
type Addr struct {
	name [nameSize]byte
	size uint32
}

// Packets receives datagrams in batches, with blocking system calls.
type Packets struct {
	file    *os.File
	fd      int
	headers [batchSize]multiHeader
	vectors [batchSize]syscall.Iovec
	names   [batchSize][nameSize]byte
	control [batchSize][controlSize]byte
	room    []byte
}

// multiHeader is struct mmsghdr.
type multiHeader struct {
	header syscall.Msghdr
	length uint32
	_      uint32
}

// NewPackets takes a socket over; the original is closed.
func NewPackets(c *net.UDPConn) (*Packets, error) {
	file, err := c.File()
	err = errors.Join(err, c.Close())
	if err != nil {
		return nil, fmt.Errorf("taking over a socket: %w", err)
	}
	p := &Packets{file: file, fd: int(file.Fd()), room: make([]byte, batchSize*packetRoom)}
	for i := range p.headers {
		p.vectors[i] = syscall.Iovec{Base: &p.room[i*packetRoom], Len: packetRoom}
		p.headers[i].header = syscall.Msghdr{Name: &p.names[i][0], Iov: &p.vectors[i], Iovlen: 1, Control: &p.control[i][0]}
	}
	// Beyond the limit of all only who is root may go; what was given is read back.
	if syscall.SetsockoptInt(p.fd, syscall.SOL_SOCKET, soRcvbufforce, wantedBuffer) != nil {
		err = syscall.SetsockoptInt(p.fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, wantedBuffer)
	}
	err = errors.Join(err, syscall.SetsockoptInt(p.fd, syscall.SOL_SOCKET, soTimestampns, 1))
	// One of the two is for the socket's own family.
	four := syscall.SetsockoptInt(p.fd, syscall.IPPROTO_IP, ipPktinfo, 1)
	six := syscall.SetsockoptInt(p.fd, syscall.IPPROTO_IPV6, ipv6RecvInfo, 1)
	if four != nil && six != nil {
		err = errors.Join(err, four, six)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("setting up a socket for datagrams: %w", err), file.Close())
	}
	return p, nil
}

// Buffer is how many bytes may wait in the socket; the kernel doubles what is
// asked for, for its own needs.
func (p *Packets) Buffer() (uint64, error) {
	n, err := syscall.GetsockoptInt(p.fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF)
	if err != nil {
		return 0, fmt.Errorf("reading the size of a socket's buffer: %w", err)
	}
	return uint64(max(n, 0)), nil
}

// Drops is how many datagrams the socket has had no room for since it was
// opened: the counter of SO_RXQ_OVFL, as it is now.
func (p *Packets) Drops() (uint32, error) {
	var b [4 * meminfoFields]byte
	if err := getsockopt(p.fd, syscall.SOL_SOCKET, soMeminfo, b[:]); err != nil {
		return 0, fmt.Errorf("reading a socket's drops: %w", err)
	}
	return binary.NativeEndian.Uint32(b[4*meminfoDrops:]), nil
}

// Receive calls each for every datagram until Stop; what it is given is valid
// during the call.
func (p *Packets) Receive(each func(*Packet)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var packet Packet
	for {
		for i := range p.headers {
			h := &p.headers[i].header
			h.Namelen, h.Controllen = nameSize, controlSize
		}
		n, _, errno := syscall.Syscall6(recvmmsg, uintptr(p.fd), uintptr(unsafe.Pointer(&p.headers)), batchSize, msgWaitForOne, 0, 0) //nolint:gosec // G103: the kernel keeps to the headers, during the call
		switch {
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return fmt.Errorf("receiving datagrams: %w", errno)
		}
		for i := range p.headers[:n] {
			h := &p.headers[i]
			if h.header.Namelen == 0 && h.length == 0 {
				return nil // stopped
			}
			packet = Packet{Data: p.room[i*packetRoom:][:h.length], From: Addr{name: p.names[i], size: min(h.header.Namelen, nameSize)}}
			packet.read(p.control[i][:min(h.header.Controllen, controlSize)])
			each(&packet)
		}
	}
}

// read takes what the kernel says about the datagram.
func (p *Packet) read(b []byte) {
	for len(b) >= controlHeader {
		size := binary.NativeEndian.Uint64(b)
		if size < controlHeader || size > uint64(len(b)) {
			return
		}
		level, kind := binary.NativeEndian.Uint32(b[8:]), binary.NativeEndian.Uint32(b[12:])
		data := b[controlHeader:size]
		switch {
		case level == syscall.SOL_SOCKET && kind == soTimestampns && len(data) >= 16:
			p.Came = int64(binary.NativeEndian.Uint64(data))*1e9 + int64(binary.NativeEndian.Uint64(data[8:])) //nolint:gosec // G115: a time of our days
		case level == syscall.IPPROTO_IP && kind == ipPktinfo && len(data) >= 4:
			p.Device = int(binary.NativeEndian.Uint32(data))
		case level == syscall.IPPROTO_IPV6 && kind == ipv6Info && len(data) >= 20:
			p.Device = int(binary.NativeEndian.Uint32(data[16:]))
		}
		b = b[min((size+controlPadding-1)&^(controlPadding-1), uint64(len(b))):]
	}
}

// Answer sends a datagram to where another came from. What cannot be sent now
// is lost, as on the way.
func (p *Packets) Answer(to *Addr, b []byte) {
	_, _, _ = syscall.Syscall6(syscall.SYS_SENDTO, uintptr(p.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), //nolint:gosec // G103: the kernel only reads, during the call
		syscall.MSG_DONTWAIT, uintptr(unsafe.Pointer(&to.name)), uintptr(to.size)) //nolint:gosec // G103: the kernel only reads, during the call
}

// Stop makes Receive return. That the socket has no peer, which is the error,
// does not matter: who waits is woken.
func (p *Packets) Stop() { _ = syscall.Shutdown(p.fd, syscall.SHUT_RD) }

// Close closes the socket; not while Receive runs.
func (p *Packets) Close() error { return p.file.Close() }
