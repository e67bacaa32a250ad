// Package traffic samples what passes the network devices of nodes and pods, and
// what their IP stacks did with it.
package traffic

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Place is a namespace whose devices are read.
type Place struct {
	Kind  string // model.PlacePod or model.PlaceNode
	Space model.Namespace
	// Underlay is a node's device to the other nodes.
	Underlay string
	// Without are devices that would count the same again: bridges, and a node's
	// ends of its pods' veths.
	Without []string
}

// MaxDevices bounds the devices of one place that are read: the first ones.
const MaxDevices = 8

// Sampler reads the counters of all places.
type Sampler struct{ Places []Place }

var _ model.Sampler = Sampler{}

// Sample reads /proc/net/dev and /proc/net/snmp of every place.
func (s Sampler) Sample(_ context.Context, dst []model.Reading) ([]model.Reading, error) {
	for _, p := range s.Places {
		var devices, stack []byte
		var at int64
		err := p.Space.InNetwork(func() (err error) {
			at = sys.Monotonic()
			if devices, err = sys.ReadFile("/proc/thread-self/net/dev"); err != nil {
				return err
			}
			stack, err = sys.ReadFile("/proc/thread-self/net/snmp")
			return err
		})
		if err == nil {
			dst, err = p.add(dst, at, devices, stack)
		}
		if err != nil {
			return dst, fmt.Errorf("sampling the traffic of %s: %w", p.Space.Name(), err)
		}
	}
	return dst, nil
}

func (p Place) add(dst []model.Reading, at int64, devices, stack []byte) ([]model.Reading, error) {
	all, err := parseDevices(devices)
	if err != nil {
		return dst, err
	}
	read := 0
	for _, d := range all {
		if d.name == "lo" || slices.Contains(p.Without, d.name) || read == MaxDevices {
			continue
		}
		read++
		kind := p.Kind
		if d.name == p.Underlay {
			kind = model.PlaceUnderlay
		}
		subject := model.DeviceSubject(kind, p.Space.Name(), d.name)
		for _, r := range []model.Reading{
			{Metric: model.SampleReceivedBytes, Value: d.received.bytes},
			{Metric: model.SampleReceivedPackets, Value: d.received.packets},
			{Metric: model.SampleSentBytes, Value: d.sent.bytes},
			{Metric: model.SampleSentPackets, Value: d.sent.packets},
			{Metric: model.SampleDroppedPackets, Value: d.received.dropped + d.sent.dropped},
		} {
			r.At, r.Subject = at, subject
			dst = append(dst, r)
		}
	}
	counters, err := parseStack(stack)
	if err != nil {
		return dst, err
	}
	for _, r := range []model.Reading{
		{Metric: model.SampleFragments, Value: counters["Ip.FragCreates"]},
		{Metric: model.SampleReassembled, Value: counters["Ip.ReasmFails"]},
		{Metric: model.SampleSegments, Value: counters["Tcp.OutSegs"] + counters["Tcp.RetransSegs"]},
	} {
		r.At, r.Subject = at, model.SubjectStack+p.Kind+" "+p.Space.Name()
		dst = append(dst, r)
	}
	return dst, nil
}

type device struct {
	name           string
	received, sent counts
}

type counts struct{ bytes, packets, dropped float64 }

// Columns of /proc/net/dev after the name: bytes packets errs drop fifo frame
// compressed multicast, and the same number for what was sent.
const (
	columnDropped = 3
	columnSent    = 8
	columns       = 16
	headLines     = 2
)

// parseDevices reads /proc/net/dev: two lines of heading, then a line a device.
func parseDevices(b []byte) ([]device, error) {
	var all []device
	line := 0
	for text := range bytes.Lines(b) {
		if line++; line <= headLines {
			continue
		}
		name, rest, found := bytes.Cut(text, []byte(":"))
		f := bytes.Fields(rest)
		if !found || len(f) < columns {
			return nil, fmt.Errorf("/proc/net/dev has the line %q", text)
		}
		d := device{name: string(bytes.TrimSpace(name))}
		for i, to := range map[int]*float64{
			0: &d.received.bytes, 1: &d.received.packets, columnDropped: &d.received.dropped,
			columnSent: &d.sent.bytes, columnSent + 1: &d.sent.packets, columnSent + columnDropped: &d.sent.dropped,
		} {
			v, err := strconv.ParseUint(string(f[i]), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("/proc/net/dev: reading a counter of %s: %w", d.name, err)
			}
			*to = float64(v)
		}
		all = append(all, d)
	}
	if line < headLines {
		return nil, fmt.Errorf("/proc/net/dev has %d lines", line)
	}
	return all, nil
}

// parseStack reads /proc/net/snmp: pairs of lines, names and then values. What
// is no count of the three that are wanted is left out.
func parseStack(b []byte) (map[string]float64, error) {
	wanted := []string{"Ip.FragCreates", "Ip.ReasmFails", "Tcp.OutSegs", "Tcp.RetransSegs"}
	found := map[string]float64{}
	lines := bytes.Split(b, []byte("\n"))
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := bytes.Fields(lines[i]), bytes.Fields(lines[i+1])
		if len(names) == 0 || len(names) != len(values) || !bytes.Equal(names[0], values[0]) {
			return nil, fmt.Errorf("/proc/net/snmp has the lines %q and %q, which do not fit", lines[i], lines[i+1])
		}
		group := string(bytes.TrimSuffix(names[0], []byte(":")))
		for k, name := range names[1:] {
			key := group + "." + string(name)
			if !slices.Contains(wanted, key) {
				continue
			}
			v, err := strconv.ParseUint(string(values[k+1]), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("/proc/net/snmp: reading %s: %w", key, err)
			}
			found[key] = float64(v)
		}
	}
	for _, key := range wanted {
		if _, ok := found[key]; !ok {
			return nil, fmt.Errorf("/proc/net/snmp has no %s", key)
		}
	}
	return found, nil
}
