package flow

import (
	"syscall"
	"unsafe"
)

// Batch is datagrams of one buffer, one after the other, that can be sent with
// one call.
type Batch struct {
	headers []multiHeader
	vectors []syscall.Iovec
}

// NewBatch describes the datagrams of a buffer, all of one size.
func NewBatch(b []byte, size int) *Batch {
	n := len(b) / size
	s := &Batch{headers: make([]multiHeader, n), vectors: make([]syscall.Iovec, n)}
	for i := range n {
		s.vectors[i] = syscall.Iovec{Base: &b[i*size], Len: uint64(size)} //nolint:gosec // G115: not negative
		s.headers[i].header = syscall.Msghdr{Iov: &s.vectors[i], Iovlen: 1}
	}
	return s
}

// Len is how many datagrams there are.
func (s *Batch) Len() int { return len(s.headers) }

// Send sends some of the datagrams on a connected socket and returns how many
// the kernel took. It does not tell the scheduler that it blocks.
func (s *Batch) Send(fd, from, to int) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(sendmmsg, uintptr(fd), uintptr(unsafe.Pointer(&s.headers[from])), uintptr(to-from), 0, 0, 0) //nolint:gosec // G103: the kernel keeps to the headers, during the call
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
