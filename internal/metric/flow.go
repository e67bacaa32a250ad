package metric

import (
	"errors"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/model"
)

// ErrOtherLoad says that a metric is not one of this load's: it is absent,
// never zero, and reports need no column for it. Find it with errors.Is.
var ErrOtherLoad = errors.New("not a metric of this load")

var (
	errNoRequests  = fmt.Errorf("%w: it is not made of requests", ErrOtherLoad)
	errNoSearch    = fmt.Errorf("%w: its rate is given, not searched for", ErrOtherLoad)
	errNoStream    = fmt.Errorf("%w: it is not a bulk transfer", ErrOtherLoad)
	errNoDatagrams = fmt.Errorf("%w: it is not a flow of datagrams", ErrOtherLoad)
	errNoFlow      = fmt.Errorf("%w: it is made of requests", ErrOtherLoad)
	errNoMessages  = fmt.Errorf("%w: its answers are not streamed", ErrOtherLoad)
)

// flows are the metrics of bulk transfers and of flows of datagrams.
func flows() []Metric {
	return []Metric{
		{"goodput", "goodput, both directions", UnitBits, BetterHigher},
		{"goodput.up", "goodput from the generator", UnitBits, BetterHigher},
		{"goodput.down", "goodput to the generator", UnitBits, BetterHigher},
		{"retransmits", "segments sent again per GB", UnitPerGB, BetterLower},
		{"rtt", "round trip of the loaded streams, smoothed", UnitSeconds, BetterLower},
		{"loss", "share of datagrams lost", UnitShare, BetterLower},
		{"reordered", "share of datagrams out of order", UnitShare, BetterLower},
		{"duplicated", "share of datagrams received twice", UnitShare, BetterLower},
		{"jitter", "jitter of datagrams (RFC 3550)", UnitSeconds, BetterLower},
		{"datagrams", "datagrams received per second", UnitRate, BetterHigher},
		{"messages", "messages of streamed answers per second", UnitRate, BetterHigher},
	}
}

// flow returns one of the metrics of flows.
func flow(o *model.Outcome, name string) (float64, error) {
	if o.Load.Elapsed <= 0 {
		return 0, fmt.Errorf("trial %d measured no time", o.Trial.Index)
	}
	switch name {
	case "goodput", "goodput.up", "goodput.down":
		return goodput(o.Load, name)
	case "retransmits", "rtt":
		return stream(o.Load, name)
	case "messages":
		if o.Load.Messages == 0 {
			return 0, errNoMessages
		}
		return float64(o.Load.Messages) / o.Load.Elapsed.Seconds(), nil
	}
	return datagrams(o.Load, name)
}

// goodput is payload that arrived, in bits per second; what came twice counts
// once.
func goodput(l *model.LoadResult, name string) (float64, error) {
	var up, down uint64
	direction := "up"
	switch {
	case l.Stream != nil:
		up, down, direction = l.Stream.Up, l.Stream.Down, l.Stream.Direction
	case l.Datagrams != nil:
		up = arrived(l.Datagrams) * uint64(max(l.Datagrams.Size, 0))
	default:
		return 0, errNoFlow
	}
	bytes := up + down
	switch {
	case name == "goodput.up" && direction == "down", name == "goodput.down" && direction == "up":
		return 0, fmt.Errorf("%w: nothing is sent that way", ErrOtherLoad)
	case name == "goodput.up":
		bytes = up
	case name == "goodput.down":
		bytes = down
	}
	return float64(bytes) * 8 / l.Elapsed.Seconds(), nil
}

// arrived counts each datagram once.
func arrived(d *model.DatagramResult) uint64 { return d.Received - min(d.Duplicated, d.Received) }

func stream(l *model.LoadResult, name string) (float64, error) {
	s := l.Stream
	switch {
	case s == nil:
		return 0, errNoStream
	case name == "rtt" && s.RTT > 0:
		return s.RTT.Seconds(), nil
	case name == "rtt":
		return 0, errors.New("TCP_INFO gave no round-trip time")
	case s.Up+s.Down == 0:
		return 0, errors.New("nothing arrived")
	}
	return float64(s.Retransmits) / (float64(s.Up+s.Down) / 1e9), nil
}

func datagrams(l *model.LoadResult, name string) (float64, error) {
	d := l.Datagrams
	switch {
	case d == nil:
		return 0, errNoDatagrams
	case d.Sent == 0:
		return 0, errors.New("no datagram was sent")
	case name == "loss":
		return float64(d.Lost) / float64(d.Sent), nil
	case name == "lost":
		return float64(d.Lost) / l.Elapsed.Seconds(), nil
	case name == "datagrams":
		return float64(d.Received) / l.Elapsed.Seconds(), nil
	case d.Received == 0:
		return 0, errors.New("no datagram was received")
	case name == "reordered":
		return float64(d.Reordered) / float64(d.Received), nil
	case name == "duplicated":
		return float64(d.Duplicated) / float64(d.Received), nil
	}
	return d.Jitter.Seconds(), nil
}

// work is what CPU is given per: 1,000 successes, or the Gbit of a flow that
// arrived.
func work(o *model.Outcome, perGbit bool) (float64, error) {
	switch {
	case perGbit && !IsFlow(o.Load):
		return 0, errNoFlow
	case perGbit:
		bits, err := goodput(o.Load, "goodput")
		if err == nil && bits == 0 {
			err = errors.New("nothing arrived")
		}
		return bits * o.Load.Elapsed.Seconds() / 1e9, err
	case IsFlow(o.Load):
		return 0, errNoRequests
	case o.Load.Succeeded == 0:
		return 0, fmt.Errorf("trial %d has no successes", o.Trial.Index)
	}
	return float64(o.Load.Succeeded) / 1000, nil
}

// IsFlow says whether a load is a bulk transfer or a flow of datagrams, and so
// has no requests.
func IsFlow(l *model.LoadResult) bool { return l.Stream != nil || l.Datagrams != nil }
