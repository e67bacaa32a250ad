package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

var (
	_ model.Mortal          = (*pod)(nil)
	_ model.Severer         = (*site)(nil)
	_ model.ComponentMortal = (*site)(nil)
)

// tableDead cuts a pod off, tableSevered nodes from each other.
const (
	tableDead    = "windtunnel-dead"
	tableSevered = "windtunnel-severed"
)

// living are the pod's processes that have not ended.
func (p *pod) living() ([]*running, error) {
	p.site.mu.Lock()
	defer p.site.mu.Unlock()
	var all []*running
	for _, r := range p.site.procs {
		if r.pod != p.name {
			continue
		}
		select {
		case <-r.Done():
			continue
		default:
		}
		if r.job.Component == model.ComponentGenerator {
			return nil, fmt.Errorf("pod %s sends the load: without it nobody would see what happens", p.name)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("pod %s has no process to harm", p.name)
	}
	return all, nil
}

// Kill ends all processes at once; see model.Mortal.
func (p *pod) Kill(_ context.Context, power bool) (revive func(context.Context) error, err error) {
	victims, err := p.living()
	if err != nil {
		return nil, err
	}
	if power {
		if err := p.ns.Do(func() error { return nft.ApplyBarrier(tableDead, []netip.Prefix{everywhere()}) }); err != nil {
			return nil, fmt.Errorf("cutting pod %s off: %w", p.name, err)
		}
	}
	var errs []error
	for _, r := range victims {
		errs = append(errs, r.Signal(syscall.SIGKILL))
	}
	var once sync.Once
	revive = func(context.Context) (err error) {
		once.Do(func() { err = p.revive(victims, power) }) //nolint:contextcheck // processes outlive the call
		return err
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(fmt.Errorf("killing pod %s: %w", p.name, err), p.revive(nil, power)) //nolint:contextcheck // as above
	}
	return revive, nil
}

// revive starts what was killed again, in the same order.
func (p *pod) revive(victims []*running, power bool) error {
	var errs []error
	for _, r := range victims {
		<-r.Done()
		errs = append(errs, r.removeFiles())
		_, err := p.start(r.job)
		errs = append(errs, err)
	}
	if power {
		errs = append(errs, p.ns.Do(func() error { return nft.Delete(tableDead) }))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("starting pod %s again: %w", p.name, err)
	}
	return nil
}

// KillComponent ends all processes of a component; see model.ComponentMortal.
func (s *site) KillComponent(_ context.Context, c model.Component, where []string) (struck []string, revive func(context.Context) error, err error) {
	if c == model.ComponentGenerator {
		return nil, nil, errors.New("what sends the load cannot be killed: nobody would see what happens")
	}
	victims := s.livingOf(c, where)
	if len(victims) == 0 {
		return nil, nil, fmt.Errorf("no process of the component %s runs there: is it in this variant's stack?", c)
	}
	var errs []error
	for _, r := range victims {
		if !slices.Contains(struck, r.pod) {
			struck = append(struck, r.pod)
		}
		errs = append(errs, r.Signal(syscall.SIGKILL))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, fmt.Errorf("killing the component %s: %w", c, err)
	}
	var once sync.Once
	revive = func(context.Context) (err error) {
		once.Do(func() { err = s.restart(victims) }) //nolint:contextcheck // processes outlive the call
		return err
	}
	return struck, revive, nil
}

// livingOf are the component's processes that have not ended.
func (s *site) livingOf(c model.Component, where []string) []*running {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*running
	for _, r := range s.procs {
		if r.job.Component != c || len(where) > 0 && !slices.Contains(where, r.pod) {
			continue
		}
		select {
		case <-r.Done():
		default:
			all = append(all, r)
		}
	}
	return all
}

// restart starts what was killed again, in the same order and where it was.
func (s *site) restart(victims []*running) error {
	var errs []error
	for _, r := range victims {
		<-r.Done()
		_, err := r.at.start(r.job)
		errs = append(errs, r.removeFiles(), err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("starting what was killed again: %w", err)
	}
	return nil
}

// Suspend stops all processes without ending them; see model.Mortal.
func (p *pod) Suspend(ctx context.Context) (resume func(context.Context) error, err error) {
	victims, err := p.living()
	if err != nil {
		return nil, err
	}
	resume = func(context.Context) error {
		var errs []error
		for _, r := range victims {
			errs = append(errs, r.Signal(syscall.SIGCONT))
		}
		return errors.Join(errs...)
	}
	if err := parallel.Each(victims, func(r *running) error { return r.Suspend(ctx) }); err != nil {
		return nil, errors.Join(fmt.Errorf("suspending pod %s: %w", p.name, err), resume(ctx))
	}
	return resume, nil
}

// Sever cuts what goes from one set of nodes to another; see model.Severer.
func (s *site) Sever(ctx context.Context, a, b []string) (mend func(context.Context) error, err error) {
	both := append(slices.Clone(a), b...)
	mend = func(context.Context) error {
		return s.onNodes(both, func(*node) error { return nft.Delete(tableSevered) })
	}
	for _, side := range [][2][]string{{a, b}, {b, a}} {
		foreign, err := s.ranges(side[1])
		if err == nil {
			err = s.onNodes(side[0], func(*node) error { return nft.ApplyBarrier(tableSevered, foreign) })
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("severing nodes: %w", err), mend(context.WithoutCancel(ctx)))
		}
	}
	return mend, nil
}

// ranges are the addresses of nodes and of the pods on them.
func (s *site) ranges(names []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	err := s.onNodes(names, func(n *node) error {
		all = append(all, netip.PrefixFrom(n.addr, n.addr.BitLen()), n.pods)
		return nil
	})
	return all, err
}

// onNodes does something in the namespaces of nodes.
func (s *site) onNodes(names []string, do func(*node) error) error {
	var errs []error
	for _, name := range names {
		i := slices.IndexFunc(s.nodes, func(n *node) bool { return n.name == name })
		if i < 0 {
			errs = append(errs, fmt.Errorf("the site has no node %q", name))
			continue
		}
		errs = append(errs, s.nodes[i].ns.Do(func() error { return do(s.nodes[i]) }))
	}
	return errors.Join(errs...)
}

func everywhere() netip.Prefix { return netip.PrefixFrom(netip.IPv4Unspecified(), 0) }
