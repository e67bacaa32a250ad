package sys

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// SendFiles sends a message with open files over a unix socket.
func SendFiles(c *net.UnixConn, message []byte, files ...*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	if _, _, err := c.WriteMsgUnix(message, unix.UnixRights(fds...), nil); err != nil {
		return fmt.Errorf("handing files over: %w", err)
	}
	return nil
}

// maxMessage bounds a message that comes with files.
const maxMessage = 128 << 10

// ReceiveFiles receives what SendFiles sent.
func ReceiveFiles(c *net.UnixConn) (message []byte, files []*os.File, err error) {
	message, control := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(8*4))
	n, oobn, _, _, err := c.ReadMsgUnix(message, control)
	if err != nil {
		return nil, nil, fmt.Errorf("receiving files: %w", err)
	}
	parts, err := unix.ParseSocketControlMessage(control[:oobn])
	if err != nil {
		return nil, nil, fmt.Errorf("receiving files: %w", err)
	}
	for _, p := range parts {
		fds, rightsErr := unix.ParseUnixRights(&p)
		err = errors.Join(err, rightsErr)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received "+strconv.Itoa(fd)))
		}
	}
	return message[:n], files, err
}
