package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/wan"
)

var _ model.LinkChanger = (*site)(nil)

// between are the directions of the link whose ends are a and b, as indexes of
// ways.
func (l *links) between(a, b string) ([]int, error) {
	var found []int
	var known []string
	for i, w := range l.ways {
		if w.from == a && w.to == b || w.from == b && w.to == a {
			found = append(found, i)
		}
		known = append(known, w.name())
	}
	if len(found) > 0 {
		return found, nil
	}
	there := "none"
	if len(known) > 0 {
		there = strings.Join(known, ", ")
	}
	return nil, fmt.Errorf("the topology has no emulated link between %s and %s to change (it has %s): give it one in links, with a delay of at least 1us", a, b, there)
}

// ChangeLink gives both directions other settings; see model.LinkChanger.
func (s *site) ChangeLink(ctx context.Context, a, b string, change func(model.Link) model.Link) (restore func(context.Context) error, err error) {
	which, err := s.links.between(a, b)
	if err != nil {
		return nil, err
	}
	planned, wanted := map[int]model.Link{}, map[int]model.Link{}
	for _, i := range which {
		planned[i], wanted[i] = s.links.ways[i].link, change(s.links.ways[i].link)
	}
	if err = s.links.claim(wanted); err != nil {
		return nil, fmt.Errorf("the link between %s and %s: %w", a, b, err)
	}
	var once sync.Once
	restore = func(context.Context) (err error) {
		once.Do(func() { err = errors.Join(s.relink(planned), s.setSegments(which)) })
		return err
	}
	err = s.setSegments(which)
	if err == nil {
		err = s.relink(wanted)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("changing the link between %s and %s: %w", a, b, err), restore(context.WithoutCancel(ctx)))
	}
	return restore, nil
}

// claim makes the links changed ones, unless one of them is already.
func (l *links) claim(wanted map[int]model.Link) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range wanted {
		if _, twice := l.changed[i]; twice {
			return errors.New("it is changed already, and one change at a time is possible")
		}
	}
	if l.changed == nil {
		l.changed = map[int]model.Link{}
	}
	maps.Copy(l.changed, wanted)
	return nil
}

// relink lets whatever emulates the links do it in another way. Those that are
// as planned again are changed no more.
func (s *site) relink(to map[int]model.Link) error {
	s.links.mu.Lock()
	defer s.links.mu.Unlock()
	for i, link := range to {
		if link == s.links.ways[i].link {
			delete(s.links.changed, i)
		}
	}
	if s.links.client == nil {
		return s.changeNetem(to)
	}
	var changes []wan.Change
	for i, link := range to {
		w := s.links.ways[i]
		w.link = link
		changes = append(changes, wan.Change{Name: w.name(), Settings: w.settings()})
	}
	if err := s.links.client.Change(changes); err != nil {
		return s.links.ended(err)
	}
	return nil
}

func (s *site) changeNetem(to map[int]model.Link) error {
	net, err := sys.OpenNet(s.fabric)
	if err != nil {
		return err
	}
	defer net.Close()
	for i, link := range to {
		w := s.links.ways[i]
		w.link = link
		for k, p := range w.pairs {
			if err := net.ChangeClass(wanPort(p[1]), w.classes[k], wan.Discipline(w.settings())); err != nil {
				return err
			}
		}
	}
	return nil
}

// setSegments lets the segments that directions begin at hand over large
// segments, or packets one by one, as their links now need it.
func (s *site) setSegments(which []int) error {
	net, err := sys.OpenNet(s.fabric)
	if err != nil {
		return err
	}
	defer net.Close()
	for _, i := range which {
		for _, p := range s.links.ways[i].pairs {
			if err := net.SingleSegments(uplink(p[0]), s.links.singleNow(p[0])); err != nil {
				return err
			}
		}
	}
	return nil
}

// singleNow is single for the links as they are, changed or not.
func (l *links) singleNow(segment int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, link := range l.changed {
		w := l.ways[i]
		w.link = link
		for _, p := range w.pairs {
			if p[0] == segment && w.settings().Single() {
				return true
			}
		}
	}
	return l.single(segment)
}

// ProbeLink measures both directions as they are; see model.LinkChanger.
func (s *site) ProbeLink(ctx context.Context, a, b string, count int) ([]model.LinkState, error) {
	which, err := s.links.between(a, b)
	if err != nil {
		return nil, err
	}
	states := make([]model.LinkState, len(which))
	err = parallel.Count(len(which), len(which), func(k int) error {
		w := s.links.ways[which[k]]
		s.links.mu.Lock()
		if link, is := s.links.changed[which[k]]; is {
			w.link = link
		}
		s.links.mu.Unlock()
		o, failure := s.probeLink(ctx, w, count)
		states[k] = model.LinkState{From: w.from, To: w.to, Link: w.link, Means: s.links.means, Observed: o}
		return failure
	})
	if err != nil {
		return nil, fmt.Errorf("measuring the link between %s and %s: %w", a, b, err)
	}
	return states, nil
}
