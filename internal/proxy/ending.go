package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Connections of a process that has ended live on in the kernel until the other
// side has agreed, a round trip later, and hold their network namespace as long.
// endingTimeout is how long that may take.
const endingTimeout = 5 * time.Second

// AwaitEnds waits until no connection is about to end where a proxy has been. One
// whose other side is gone would take a minute; it is not waited for.
func AwaitEnds(ctx context.Context, where model.Namespace) error {
	ctx, cancel := context.WithTimeout(ctx, endingTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left := 0
		err := where.InNetwork(func() error {
			table, err := sys.ReadFile("/proc/thread-self/net/tcp")
			left = ending(table)
			return err
		})
		if err != nil {
			return fmt.Errorf("looking for connections in %s: %w", where.Name(), err)
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil
			}
			return fmt.Errorf("waiting for connections in %s to end: %w", where.Name(), ctx.Err())
		case <-tick.C:
		}
	}
}

// ending counts connections that have sent a FIN and hold a socket until it is
// answered, in the kernel's table of TCP sockets.
func ending(table []byte) (n int) {
	const state = 3 // field, after number, local and remote address
	for line := range bytes.Lines(table) {
		fields := bytes.Fields(line)
		if len(fields) <= state {
			continue
		}
		switch string(fields[state]) {
		case "04", "09", "0B": // FIN_WAIT1, LAST_ACK, CLOSING
			n++
		}
	}
	return n
}
