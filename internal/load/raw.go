package load

import (
	"syscall"
	"unsafe"
)

// The engine's system calls. RawSyscall does not tell the Go scheduler: the
// worker's thread is its own, and the scheduler's book-keeping would cost more
// than the call. That is why Run gives everything else another place to run.

const sysEpollPwait2 = 441 // the same number on every architecture

func rawRead(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), errno
}

func rawWrite(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), errno
}

// epollWait waits at most ns nanoseconds. Kernels before 5.11 have no
// epoll_pwait2; they get whole milliseconds, rounded up.
func epollWait(epoll int, events []syscall.EpollEvent, ns int64) int {
	ts := syscall.NsecToTimespec(ns)
	n, _, errno := syscall.RawSyscall6(sysEpollPwait2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	if errno == syscall.ENOSYS {
		n, _, errno = syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr((ns+999_999)/1_000_000), 0, 0)
	}
	if errno != 0 {
		return 0
	}
	return int(n)
}

// setTimerSlack lets this thread's timers fire on time: the default slack of
// 50 µs is as long as what is measured.
func setTimerSlack() {
	const prSetTimerSlack = 29
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, 1, 0) //nolint:errcheck // only precision is lost
}
