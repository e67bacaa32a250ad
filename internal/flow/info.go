package flow

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// Info is what the kernel knows about a TCP connection (TCP_INFO).
type Info struct {
	Retransmits uint32        // segments
	RTT         time.Duration // smoothed
	MSS         uint32        // bytes, of what is sent
	Congestion  string        // the algorithm
}

// Where things are in struct tcp_info of linux/tcp.h.
const (
	infoMSS     = 16
	infoRTT     = 68 // microseconds
	infoRetrans = 100
	infoSize    = 104
)

func tcpInfo(fd int) (Info, error) {
	var b [infoSize]byte
	if err := getsockopt(fd, syscall.IPPROTO_TCP, syscall.TCP_INFO, b[:]); err != nil {
		return Info{}, fmt.Errorf("reading TCP_INFO: %w", err)
	}
	var name [16]byte
	if err := getsockopt(fd, syscall.IPPROTO_TCP, syscall.TCP_CONGESTION, name[:]); err != nil {
		return Info{}, fmt.Errorf("reading TCP_CONGESTION: %w", err)
	}
	field := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	return Info{
		Retransmits: field(infoRetrans), RTT: time.Duration(field(infoRTT)) * time.Microsecond,
		MSS: field(infoMSS), Congestion: cString(name[:]),
	}, nil
}

func getsockopt(fd, level, option int, b []byte) error {
	size := uint32(len(b)) //nolint:gosec // G115: small
	_, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(&size)), 0) //nolint:gosec // G103: the kernel keeps to size, during the call
	if errno != 0 {
		return errno
	}
	return nil
}
