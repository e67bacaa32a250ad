package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// AwaitReady asks a proxy, which errors call who, until it says that it is ready
// (nil), for at most so long. A process that has just been started is watched for
// its end; it is nil for one that a fault has killed, and that may have been
// started again as another.
func AwaitReady(ctx context.Context, who string, process model.Running, within time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var ended <-chan struct{}
	if process != nil {
		ended = process.Done()
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("%s ended while starting: %w (its log is in the run folder)", who, process.Err())
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready within %s (its log is in the run folder): %w", who, within, errors.Join(err, ctx.Err()))
		case <-tick.C:
		}
	}
}
