package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/delay"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/network"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/plan"
)

// Linked is a link between two clusters, as it was measured.
type Linked struct {
	A, B string
	// Before and Now are medians of round trips, without the delay and with it.
	Before, Now time.Duration
}

// Link delays what goes from one cluster to another, each way, until the context
// ends. It calls ready once it has measured what the delay does.
func (l Lab) Link(ctx context.Context, a, b string, each time.Duration, line []string, ready func(Linked) error) error {
	r, err := l.read()
	if err != nil {
		return err
	}
	from, err := r.Plan.Cluster(a)
	if err != nil {
		return err
	}
	to, err := r.Plan.Cluster(b)
	if err != nil {
		return err
	}
	if a == b {
		return fmt.Errorf("a link from %s to itself: two clusters are meant", a)
	}
	wan := r.Plan.Namespace(plan.WAN)
	if err = network.In(wan, func() error { return delay.Clear(ctx) }); err != nil {
		return err
	}
	result := Linked{A: a, B: b}
	if result.Before, err = l.roundTrip(ctx, from, to); err != nil {
		return err
	}
	var running *delay.Running
	start := func() (err error) {
		running, err = delay.Start(ctx, delay.Link{A: a, B: b, Delay: each}, line...)
		return err
	}
	if err = network.In(wan, start); err != nil {
		return fmt.Errorf("delaying what goes between %s and %s: %w", a, b, err)
	}
	stop := func() error { return network.In(wan, running.Stop) }
	if result.Now, err = l.roundTrip(ctx, from, to); err == nil {
		err = ready(result)
	}
	if err != nil {
		return errors.Join(err, stop())
	}
	select {
	case <-ctx.Done():
		return stop()
	case <-running.Ended():
		return errors.Join(fmt.Errorf("the delay line has ended, and with it the link between %s and %s: %w", a, b, running.Err()), stop())
	}
}

// roundTrip is the median time that connecting takes, from a cluster's first node
// to another cluster's API server.
func (l Lab) roundTrip(ctx context.Context, from, to plan.Cluster) (time.Duration, error) {
	const count, patience = 21, 10 * time.Second
	node := l.Name + "-" + from.Nodes[0].Name
	address := fmt.Sprintf("%s:%d", to.Router.Addr(), plan.APIPort)
	var took []time.Duration
	err := network.In(node, func() error {
		dialer := net.Dialer{Timeout: patience}
		for range count {
			begun := time.Now()
			c, err := dialer.DialContext(ctx, "tcp4", address)
			if err != nil {
				return fmt.Errorf("connecting from %s to %s: %w", node, address, err)
			}
			took = append(took, time.Since(begun))
			_ = c.Close() // nothing was said over it
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
