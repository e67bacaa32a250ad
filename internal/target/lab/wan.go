package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
	"github.com/windtunnel/windtunnel/internal/sys/wan"
)

// Nodes that have the same links to all others form a segment: a bridge of its
// own. Segments are ports of the bridge `wan`, in the form of a star; where it
// forwards from one port to another is where links are emulated: by netem at
// the port's other end, or by the delay line, to which the kernel hands what
// crosses. Nodes notice nothing of it but the time: they stay neighbours.
const (
	wanBridge = "wan"
	wanTable  = "windtunnel-links"
	// nodePort begins the names of the nodes' ports.
	nodePort = "n"
	// DelayLine is the hidden command of this program that emulates links.
	DelayLine = "delay-line"
)

// The means of emulation.
const (
	meansNetem = "netem"
	meansLine  = "delay line"
)

// ServeDelayLine is what the program does as a child of the lab's.
func ServeDelayLine(in io.Reader, out io.Writer) error { return wan.Serve(in, out) }

// links are the emulated links of a site.
type links struct {
	segments []int       // of each node
	count    int         // of segments
	ways     []direction // of every emulated link, both
	means    string
	states   []model.LinkState

	process *sys.Process // of the delay line; nil: none
	group   *sys.Cgroup
	log     *sys.Tail
	mu      sync.Mutex // of client and changed
	client  *wan.Client
	changed map[int]model.Link // by index of ways: those that are not as planned
	// asked says that the process has been told to end.
	asked bool
}

// direction is one way of a link: from and to are segments, and there are as
// many pairs of them as the link joins.
type direction struct {
	from, to string // the link's ends
	link     model.Link
	pairs    [][2]int
	// classes are, by pair, which of the port's queues it has, with netem.
	classes []int
	// nodes are two that the direction joins, for probes.
	nodes [2]int
}

// planLinks divides the nodes into segments and finds what joins them.
func planLinks(t model.Topology) *links {
	places := t.Places()
	l := &links{segments: make([]int, len(places)), count: 1}
	if len(t.Links) == 0 {
		return l
	}
	first := l.divide(t, places)
	index := map[between]int{}
	for s, a := range first {
		for u, b := range first {
			p := linkBetween(t, places[a], places[b])
			if s == u || p.link < 0 || !t.Links[p.link].Emulated() {
				continue
			}
			way, known := index[p]
			if !known {
				way = len(l.ways)
				index[p] = way
				link := t.Links[p.link]
				from, to := link.A, link.B
				if !p.forward {
					from, to = to, from
				}
				l.ways = append(l.ways, direction{from: from, to: to, link: link, nodes: [2]int{a, b}})
			}
			l.ways[way].pairs = append(l.ways[way].pairs, [2]int{s, u})
		}
	}
	return l
}

// between is the link that holds from one node to another, and which way.
type between struct {
	link    int // -1: none
	forward bool
}

func linkBetween(t model.Topology, from, to model.Place) between {
	k := t.LinkOf(from, to)
	return between{k, k >= 0 && t.Forward(k, from, to)}
}

// divide finds every node's segment, and returns the first node of each.
func (l *links) divide(t model.Topology, places []model.Place) (first []int) {
	for i := range places {
		s := slices.IndexFunc(first, func(other int) bool { return alike(t, places, i, other) })
		if s < 0 {
			s = len(first)
			first = append(first, i)
		}
		l.segments[i] = s
	}
	l.count = len(first)
	return first
}

// alike says whether no link joins two nodes and they have the same links, both
// ways, to all others.
func alike(t model.Topology, places []model.Place, i, j int) bool {
	a, b := places[i], places[j]
	if t.LinkOf(a, b) >= 0 {
		return false
	}
	for k, p := range places {
		if k != i && k != j && (linkBetween(t, a, p) != linkBetween(t, b, p) || linkBetween(t, p, a) != linkBetween(t, p, b)) {
			return false
		}
	}
	return true
}

// settings are a direction's for the emulation.
func (d direction) settings() wan.Settings {
	l := d.link
	return wan.Settings{
		Delay: l.Delay, Jitter: l.Jitter, Reorder: l.Reorder, Loss: l.Loss, Duplicate: l.Duplicate, Overtake: l.ReorderShare, Rate: l.Rate,
	}
}

func (d direction) name() string { return d.from + ">" + d.to }

func uplink(segment int) string  { return "up" + strconv.Itoa(segment) }  // of a segment's bridge
func wanPort(segment int) string { return "wan" + strconv.Itoa(segment) } // of the bridge wan

// buildSegments makes a bridge for each segment, the first of which is there
// already, and joins them. It returns the bridge of each node.
func (s *site) buildSegments(net *sys.Net, first int) ([]int, error) {
	s.links = planLinks(s.topology)
	bridges := []int{first}
	for i := 1; i < s.links.count; i++ {
		b, err := net.AddBridge(sys.Bridge{Name: fabricBridge + strconv.Itoa(i), MTU: s.mtu()})
		if err != nil {
			return nil, err
		}
		bridges = append(bridges, b)
	}
	of := make([]int, len(s.links.segments))
	for i, segment := range s.links.segments {
		of[i] = bridges[segment]
	}
	if s.links.count == 1 {
		return of, nil
	}
	center, err := net.AddBridge(sys.Bridge{Name: wanBridge, MTU: s.mtu()})
	if err != nil {
		return nil, err
	}
	for i, b := range bridges {
		trunk := sys.Trunk{Near: uplink(i), Far: wanPort(i), NearBridge: b, FarBridge: center, MTU: s.mtu(), Single: s.links.single(i)}
		if err := net.AddTrunk(trunk); err != nil {
			return nil, err
		}
	}
	return of, s.enterStations(net)
}

// single says whether a link that begins at the segment needs packets one by
// one.
func (l *links) single(segment int) bool {
	for _, w := range l.ways {
		for _, p := range w.pairs {
			if p[0] == segment && w.settings().Single() {
				return true
			}
		}
	}
	return false
}

// enterStations tells all bridges where nodes are: what is sent to one must not
// cross the links to all others.
func (s *site) enterStations(net *sys.Net) error {
	for i, n := range s.nodes {
		for segment := range s.links.count {
			port := wanPort(segment)
			if s.links.segments[i] != segment {
				port = uplink(segment)
			}
			if err := net.Station(port, n.addr); err != nil {
				return err
			}
		}
	}
	return nil
}

// startLinks begins to emulate, limits MTUs, and measures.
func (s *site) startLinks(ctx context.Context) error {
	if err := s.limitMTUs(); err != nil {
		return err
	}
	if len(s.links.ways) == 0 {
		return nil
	}
	var err error
	s.links.means = meansNetem
	if s.fabric.Do(tryNetem) == nil {
		err = s.useNetem()
	} else {
		s.links.means = meansLine
		err = s.useDelayLine()
	}
	if err != nil {
		return fmt.Errorf("emulating links: %w", err)
	}
	return s.measureLinks(ctx)
}

// tryNetem says whether the kernel has all that netem needs here.
func tryNetem() error { return errors.Join(sys.TryQdisc("netem"), sys.TryQdisc("prio")) }

// useNetem gives the port of each segment a netem for each segment that has a
// link to it. Where a link joins several segments, each pair has its rate.
func (s *site) useNetem() error {
	at := make([][]sys.Discipline, s.links.count)
	var crossings []nft.Crossing
	for i := range s.links.ways {
		w := &s.links.ways[i]
		for _, p := range w.pairs {
			w.classes = append(w.classes, len(at[p[1]]))
			crossings = append(crossings, nft.Crossing{In: wanPort(p[0]), Out: wanPort(p[1]), Priority: sys.ClassPriority(len(at[p[1]]))})
			at[p[1]] = append(at[p[1]], wan.Discipline(w.settings()))
		}
	}
	net, err := sys.OpenNet(s.fabric)
	if err != nil {
		return err
	}
	defer net.Close()
	for segment, disciplines := range at {
		if err := net.AddClasses(wanPort(segment), disciplines); err != nil {
			return err
		}
	}
	return s.fabric.Do(func() error { return nft.ApplyCrossings(wanTable, crossings) })
}

// useDelayLine starts the process and then hands it what crosses.
func (s *site) useDelayLine() error {
	var lines []wan.Line
	var crossings []nft.Crossing
	for i, w := range s.links.ways {
		queue := uint16(i + 1)
		lines = append(lines, wan.Line{Name: w.name(), Queue: queue, Seed: uint64(queue), Settings: w.settings(), Stations: s.stations(w)})
		for _, p := range w.pairs {
			crossings = append(crossings, nft.Crossing{In: wanPort(p[0]), Out: wanPort(p[1]), Queue: queue})
		}
	}
	if err := s.fabric.Do(func() error { return nft.ApplyCrossings(wanTable, crossings) }); err != nil {
		return err
	}
	return s.startDelayLine(lines)
}

// stations are who is behind a direction that sends duplicates.
func (s *site) stations(w direction) []wan.Station {
	var all []wan.Station
	if w.link.Duplicate == 0 {
		return nil
	}
	for _, n := range s.nodes {
		for _, r := range []netip.Prefix{hostPrefix(n), n.pods} {
			all = append(all, wan.Station{Range: r, Hardware: sys.MAC(n.addr)})
		}
	}
	return all
}

func (s *site) startDelayLine(lines []wan.Line) error {
	l := s.links
	var err error
	if l.group, err = s.cgroup.Sub("links"); err != nil {
		return err
	}
	// When CPUs are short it goes before all that it carries, and on version 2,
	// where it is weighed with the lab, the lab before others.
	const weight = 64
	if err = errors.Join(l.group.Weigh(weight), s.cgroup.Weigh(weight), s.target.group.Weigh(weight)); err != nil {
		return err
	}
	own, err := l.group.Sub(DelayLine)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	l.log = sys.NewTail(sys.LogLimit)
	l.process, err = sys.Start(sys.Command{
		Argv: []string{self, DelayLine}, Env: []string{searchPath}, Netns: s.fabric, CPUs: s.cpus(false), Group: own.Unweighed(), Output: l.log, Piped: true,
	})
	if err != nil {
		return err
	}
	l.client, _, err = wan.Dial(l.process.Stream(), lines)
	if err != nil && len(l.log.Bytes()) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(l.log.Bytes())))
	}
	return err
}

// stats are the delay line's; nil where there is none.
func (l *links) stats() ([]wan.Stats, error) {
	if l == nil || l.client == nil {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.client.Stats()
	if err != nil {
		return nil, fmt.Errorf("the emulated links are down, and so is all traffic that crosses them: %w", l.ended(err))
	}
	return all, nil
}

// ended adds how the delay line ended, if it did.
func (l *links) ended(err error) error {
	select {
	case <-l.process.Done():
		return errors.Join(err, fmt.Errorf("the delay line has ended: %w; it printed: %q", l.process.Err(), l.log.Bytes()))
	default:
		return err
	}
}

// stop ends the delay line; one that ended before is an error.
func (l *links) stop(ctx context.Context) error {
	if l == nil || l.process == nil || l.asked {
		return nil
	}
	l.asked = true
	var err error
	select {
	case <-l.process.Done():
		err = fmt.Errorf("the delay line of the emulated links has ended before the site: %w; it printed: %q", l.process.Err(), l.log.Bytes())
	default:
	}
	return errors.Join(err, l.process.Stop(ctx))
}

// limitMTUs lets nodes know of links with a smaller MTU: a node's kernel tells
// senders when packets are too large, as the router before such a link would.
func (s *site) limitMTUs() error {
	places := s.topology.Places()
	limited := slices.ContainsFunc(s.topology.Links, func(l model.Link) bool { return l.MTU != 0 })
	for i, n := range s.nodes {
		for j, other := range s.nodes {
			if !limited {
				return nil
			}
			k := s.topology.LinkOf(places[i], places[j])
			if i == j || k < 0 || s.topology.Links[k].MTU == 0 {
				continue
			}
			if err := s.limitMTU(n, other, s.topology.Links[k].MTU, n.network == other.network); err != nil {
				return fmt.Errorf("node %s: %w", n.name, err)
			}
		}
	}
	return nil
}

func (s *site) limitMTU(n, other *node, mtu int, pods bool) error {
	net, err := sys.OpenNet(n.ns)
	if err != nil {
		return err
	}
	defer net.Close()
	eth0, err := net.Index("eth0")
	if err != nil {
		return err
	}
	err = net.RouteMTU(eth0, hostPrefix(other), netip.Addr{}, mtu)
	if err == nil && pods {
		err = net.RouteMTU(eth0, other.pods, other.addr, mtu)
	}
	return err
}

func hostPrefix(n *node) netip.Prefix { return netip.PrefixFrom(n.addr, n.addr.BitLen()) }
