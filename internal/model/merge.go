package model

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/hist"
)

// Merge adds what another generator counted of the same load in the same
// window, exactly: histograms are merged, counts added, timelines laid over
// each other. Rate is that of all together in either. GeneratorIdle is the
// least, as one busy generator is enough to hold a load up.
func (r *LoadResult) Merge(o *LoadResult) error {
	if err := r.alike(o); err != nil {
		return err
	}
	r.mergeSizes(o)
	r.mergeHistograms(o)
	r.mergeCounters(o)
	r.mergeReasons(o)
	mergeCounts(&r.Failed, o.Failed)
	mergeCounts(&r.Statuses, o.Statuses)
	mergeCounts(&r.Responders, o.Responders)
	r.Connections += o.Connections
	r.Streams = max(r.Streams, o.Streams)
	if r.FirstSuccess == 0 || o.FirstSuccess > 0 && o.FirstSuccess < r.FirstSuccess {
		r.FirstSuccess = o.FirstSuccess
	}
	r.Turnaround += o.Turnaround
	r.GeneratorCPU += o.GeneratorCPU
	r.GeneratorIdle = min(r.GeneratorIdle, o.GeneratorIdle)
	r.Workers += o.Workers
	if r.Clock != o.Clock {
		r.Clock += "; " + o.Clock
	}
	r.Timeline.merge(o.Timeline)
	if r.Trace != nil && o.Trace != nil {
		r.Trace.merge(o.Trace)
	}
	if r.Traced != nil && o.Traced != nil {
		r.Traced.merge(o.Traced)
	}
	if r.Stream != nil {
		r.Stream.merge(o.Stream)
	}
	if r.Datagrams != nil {
		r.Datagrams.merge(o.Datagrams)
	}
	return nil
}

// alike says why two results are not parts of one load.
func (r *LoadResult) alike(o *LoadResult) error {
	switch {
	case r.Arrival != o.Arrival || r.Rate != o.Rate || r.Elapsed != o.Elapsed:
		return fmt.Errorf("results of different loads cannot be merged: %s at %g/s for %s, and %s at %g/s for %s",
			r.Arrival, r.Rate, r.Elapsed, o.Arrival, o.Rate, o.Elapsed)
	case r.Timeline.SlotWidth != o.Timeline.SlotWidth || len(r.Timeline.Slots) != len(o.Timeline.Slots):
		return errors.New("results with different timelines cannot be merged")
	case (r.Stream == nil) != (o.Stream == nil) || (r.Datagrams == nil) != (o.Datagrams == nil) || r.Tool != nil || o.Tool != nil:
		return errors.New("results of different kinds cannot be merged")
	}
	return nil
}

func (r *LoadResult) mergeHistograms(o *LoadResult) {
	for _, h := range []struct {
		into **hist.Histogram
		from *hist.Histogram
	}{{&r.Response, o.Response}, {&r.Service, o.Service}, {&r.FailedResponse, o.FailedResponse}, {&r.Lateness, o.Lateness}} {
		if *h.into == nil {
			*h.into = &hist.Histogram{}
		}
		(*h.into).Merge(h.from)
	}
}

func (r *LoadResult) mergeCounters(o *LoadResult) {
	for _, c := range []struct {
		into *uint64
		from uint64
	}{
		{&r.Due, o.Due},
		{&r.Sent, o.Sent},
		{&r.Succeeded, o.Succeeded},
		{&r.Unsent, o.Unsent},
		{&r.Blocked, o.Blocked},
		{&r.Unidentified, o.Unidentified},
		{&r.BytesSent, o.BytesSent},
		{&r.BytesReceived, o.BytesReceived},
		{&r.PayloadChanged, o.PayloadChanged},
		{&r.Sockets, o.Sockets},
		{&r.FailedPrefix, o.FailedPrefix},
		{&r.WarmupDue, o.WarmupDue},
		{&r.WarmupFailed, o.WarmupFailed},
		{&r.Messages, o.Messages},
	} {
		*c.into += c.from
	}
}

func (r *LoadResult) mergeReasons(o *LoadResult) {
	for cause, reason := range o.Reasons {
		if r.Reasons == nil {
			r.Reasons = map[Cause]string{}
		}
		if _, known := r.Reasons[cause]; !known {
			r.Reasons[cause] = reason
		}
	}
}

// mergeSizes must come before the counts: without successes there are no sizes.
func (r *LoadResult) mergeSizes(o *LoadResult) {
	switch {
	case o.Succeeded == 0:
	case r.Succeeded == 0:
		r.HeaderBytesMin, r.HeaderBytesMax = o.HeaderBytesMin, o.HeaderBytesMax
		r.BodyBytesMin, r.BodyBytesMax = o.BodyBytesMin, o.BodyBytesMax
	default:
		r.HeaderBytesMin, r.HeaderBytesMax = min(r.HeaderBytesMin, o.HeaderBytesMin), max(r.HeaderBytesMax, o.HeaderBytesMax)
		r.BodyBytesMin, r.BodyBytesMax = min(r.BodyBytesMin, o.BodyBytesMin), max(r.BodyBytesMax, o.BodyBytesMax)
	}
}

func mergeCounts[K comparable](into *map[K]uint64, from map[K]uint64) {
	if *into == nil && len(from) > 0 {
		*into = map[K]uint64{}
	}
	for k, n := range from {
		(*into)[k] += n
	}
}

func (t *Timeline) merge(o Timeline) {
	for i := range t.Slots {
		s, other := &t.Slots[i], &o.Slots[i]
		s.Mean = weighted(s.Mean, s.Succeeded, other.Mean, other.Succeeded)
		s.Max = max(s.Max, other.Max)
		s.Succeeded += other.Succeeded
		s.Failed += other.Failed
		s.Cells = mergeCells(s.Cells, other.Cells)
	}
}

// weighted is the mean of two means of so many values each.
func weighted(a time.Duration, n uint64, b time.Duration, m uint64) time.Duration {
	if n+m == 0 {
		return 0
	}
	return time.Duration((float64(a)*float64(n) + float64(b)*float64(m)) / float64(n+m))
}

func mergeCells(a, b [][2]uint32) [][2]uint32 {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y [2]uint32) int { return int(x[0]) - int(y[0]) })
	merged := all[:0]
	for _, c := range all {
		if n := len(merged); n > 0 && merged[n-1][0] == c[0] {
			merged[n-1][1] += c[1]
			continue
		}
		merged = append(merged, c)
	}
	return merged
}

// merge adds streams of another generator. The MSS is the least.
func (s *StreamResult) merge(o *StreamResult) {
	s.RTT = weighted(s.RTT, uint64(max(s.Streams, 0)), o.RTT, uint64(max(o.Streams, 0)))
	s.Streams += o.Streams
	s.Up += o.Up
	s.Down += o.Down
	s.Retransmits += o.Retransmits
	s.MSS = min(s.MSS, o.MSS)
	for i := range min(len(s.Intervals), len(o.Intervals)) {
		a, b := &s.Intervals[i], &o.Intervals[i]
		a.Up += b.Up
		a.Down += b.Down
		a.Retransmits += b.Retransmits
	}
}

// merge adds a flow of another generator. Jitter is the mean of both, weighted
// by datagrams; the receiver's interface is the same one, which counted both
// flows, so that its counters are not added.
func (d *DatagramResult) merge(o *DatagramResult) {
	d.Jitter = weighted(d.Jitter, d.Received, o.Jitter, o.Received)
	d.Sent += o.Sent
	d.Received += o.Received
	d.Lost += o.Lost
	d.Reordered += o.Reordered
	d.Duplicated += o.Duplicated
	d.FlowSent += o.FlowSent
	d.FlowReceived += o.FlowReceived
	d.SocketDrops += o.SocketDrops
	d.ReceiveBuffer = max(d.ReceiveBuffer, o.ReceiveBuffer)
	d.InterfacePackets = max(d.InterfacePackets, o.InterfacePackets)
	d.InterfaceDrops = max(d.InterfaceDrops, o.InterfaceDrops)
	d.Offload = d.Offload || o.Offload
	d.Calls += o.Calls
	for i := range min(len(d.Intervals), len(o.Intervals)) {
		a, b := &d.Intervals[i], &o.Intervals[i]
		a.Jitter = weighted(a.Jitter, a.Received, b.Jitter, b.Received)
		a.Sent += b.Sent
		a.Received += b.Received
		a.Lost += b.Lost
	}
}
