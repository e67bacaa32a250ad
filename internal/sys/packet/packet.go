// Package packet reads what passes a network device, as tcpdump does.
package packet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// snap is how much of a packet is read: headers and the beginning of what it
// carries, which is all that tells one protocol from another.
const snap = 4096

// room is the socket's buffer in bytes, so that a burst waits until it is read.
const room = 4 << 20

// Socket receives every packet of one device, both those that come and those
// that go. Stop and Close may be called while Receive runs.
type Socket struct {
	file *os.File
	mtu  int
}

// Listen opens a socket on a device of the calling thread's network namespace.
// It needs CAP_NET_RAW over that namespace.
func Listen(device string) (*Socket, error) {
	at, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("finding the device %s: %w", device, err)
	}
	// Without a protocol the socket receives nothing before it is bound.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket (it needs CAP_NET_RAW): %w", err)
	}
	file := os.NewFile(uintptr(fd), "packets of "+device)
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room)
	if errors.Is(err, unix.EPERM) { // in a user namespace the limit of all holds
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, room)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: at.Index})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listening for packets on %s: %w", device, err), file.Close())
	}
	return &Socket{file: file, mtu: at.MTU}, nil
}

// bigEndian is a number's bytes in the network's order, as the kernel wants a
// protocol. Only ETH_P_ALL shows packets that leave.
func bigEndian(n uint16) uint16 { return n<<8 | n>>8 }

// MTU is the device's, in bytes, when the socket was opened.
func (s *Socket) MTU() int { return s.mtu }

// Receive calls each for every packet, from its network header on and cut off
// after 4 KiB, until Stop or Close. After Stop it still hands over what had
// come before. The bytes are valid during the call only.
func (s *Socket) Receive(each func(packet []byte)) error {
	buf := make([]byte, snap)
	for {
		n, err := s.file.Read(buf)
		switch {
		case err == nil:
			each(buf[:n])
		case errors.Is(err, io.EOF): // an empty packet
		case errors.Is(err, os.ErrDeadlineExceeded):
			return s.rest(buf, each)
		case errors.Is(err, os.ErrClosed):
			return nil
		default:
			return fmt.Errorf("receiving %s: %w", s.file.Name(), err)
		}
	}
}

// rest hands over what waits in the socket's buffer.
func (s *Socket) rest(buf []byte, each func(packet []byte)) error {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("receiving %s: %w", s.file.Name(), err)
	}
	var failure error
	// A busy device never runs dry: a buffer's worth is the end.
	for range room / snap {
		n := 0
		err = raw.Control(func(fd uintptr) {
			n, _, failure = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
		})
		switch {
		case errors.Is(failure, syscall.EAGAIN):
			return nil
		case err != nil || failure != nil:
			return fmt.Errorf("receiving %s: %w", s.file.Name(), errors.Join(err, failure))
		}
		each(buf[:n])
	}
	return nil
}

// Stop makes Receive return when it has handed over what has come so far.
func (s *Socket) Stop() error {
	if err := s.file.SetReadDeadline(time.Now()); err != nil {
		return fmt.Errorf("ending %s: %w", s.file.Name(), err)
	}
	return nil
}

// Close ends Receive at once. Closing twice is fine.
func (s *Socket) Close() error {
	if err := s.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("closing %s: %w", s.file.Name(), err)
	}
	return nil
}
