package sys

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Stdio are this process's standard input, output and error.
func Stdio() [3]*os.File { return [3]*os.File{os.Stdin, os.Stdout, os.Stderr} }

// Terminal is the user's kind of terminal, for programs that draw on it.
func Terminal() string { return os.Getenv("TERM") }

// SendFiles sends a message and three open files over a Unix socket.
func SendFiles(c *net.UnixConn, message []byte, files [3]*os.File) error {
	rights := unix.UnixRights(int(files[0].Fd()), int(files[1].Fd()), int(files[2].Fd()))
	if _, _, err := c.WriteMsgUnix(message, rights, nil); err != nil {
		return fmt.Errorf("sending standard files: %w", err)
	}
	return nil
}

// ReceiveFiles receives what SendFiles sent: up to len(buf) bytes of message,
// and the files, which the caller closes.
func ReceiveFiles(c *net.UnixConn, buf []byte) (message []byte, files [3]*os.File, err error) {
	rights := make([]byte, unix.CmsgSpace(len(files)*4))
	n, m, _, _, err := c.ReadMsgUnix(buf, rights)
	if err != nil {
		return nil, files, fmt.Errorf("receiving standard files: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil {
		return nil, files, fmt.Errorf("reading standard files: %w", err)
	}
	var descriptors []int
	for i := range messages {
		var fds []int
		if fds, err = unix.ParseUnixRights(&messages[i]); err != nil {
			return nil, files, fmt.Errorf("reading standard files: %w", err)
		}
		descriptors = append(descriptors, fds...)
	}
	if len(descriptors) != len(files) {
		err = fmt.Errorf("got %d files for standard input, output and error", len(descriptors))
		for _, fd := range descriptors {
			err = errors.Join(err, unix.Close(fd))
		}
		return nil, files, err
	}
	for i, fd := range descriptors {
		unix.CloseOnExec(fd)
		files[i] = os.NewFile(uintptr(fd), "standard file")
	}
	return buf[:n], files, nil
}

// Signals delivers the signals with which users end and steer programs, until
// stop is called.
func Signals() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 8)
	signal.Notify(c, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	return c, func() { signal.Stop(c) }
}

// SignalNumber is a signal's number on the wire.
func SignalNumber(s os.Signal) int {
	if n, ok := s.(unix.Signal); ok {
		return int(n)
	}
	return 0
}
