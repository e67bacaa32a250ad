package metric

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

var (
	errSameNode  = fmt.Errorf("%w: it does not cross the underlay", ErrOtherLoad)
	errNoTraffic = errors.New("the traffic of devices was not sampled")
	errOffloaded = errors.New("the datagrams left in large buffers (GSO), which devices count as one")
)

// traffics are the metrics that rest on devices' counters and the host's.
func traffics() []Metric {
	return []Metric{
		{"efficiency", "payload by bytes on the underlay", UnitShare, BetterHigher},
		{"lost", "datagrams lost per second", UnitRate, BetterLower},
		{"fragments", "IP fragments made per datagram", UnitCount, BetterLower},
		{"cpu.gbit.host", "CPU of the whole host", UnitCPUPerGb, BetterLower},
		{"cpu.gbit.softirq", "CPU of the host's soft interrupts", UnitCPUPerGb, BetterLower},
		{"cpu.packets.total", "CPU of app, proxies and gateways", UnitCPUPerPk, BetterLower},
		{"cpu.packets.host", "CPU of the whole host", UnitCPUPerPk, BetterLower},
		{"cpu.packets.softirq", "CPU of the host's soft interrupts", UnitCPUPerPk, BetterLower},
	}
}

// KindLink is the kind of a direction of an emulated link, which here counts as
// a device: its place is "a>b", and it has packets out only.
const KindLink = "link"

// Device is what passed a network device in the measured window.
type Device struct {
	Kind  string // model.PlacePod, model.PlaceNode, model.PlaceUnderlay or KindLink
	Place string // the pod or node
	Name  string
	// In is to the place and Out from it: bits and packets per second. Large
	// segments that the kernel keeps whole are one packet, with one header.
	In, Out               float64
	InPackets, OutPackets float64
	Dropped               float64 // packets per second, by the device
}

// Devices are all devices that were read, in the samples' order.
func Devices(o *model.Outcome) []Device {
	const bits = 8
	var all []Device
	index := map[string]int{}
	seconds := o.Window.Duration().Seconds()
	for _, s := range o.Samples {
		kind, place, name, ok := deviceOf(s.Subject)
		if !ok || seconds <= 0 {
			continue
		}
		i, seen := index[s.Subject]
		if !seen {
			i = len(all)
			index[s.Subject] = i
			all = append(all, Device{Kind: kind, Place: place, Name: name})
		}
		grown, covered := Delta(s, o.Window)
		if covered == 0 {
			continue
		}
		rate := grown / seconds / covered
		switch d := &all[i]; s.Metric {
		case model.SampleReceivedBytes:
			d.In = rate * bits
		case model.SampleSentBytes:
			d.Out = rate * bits
		case model.SampleReceivedPackets:
			d.InPackets = rate
		case model.SampleSentPackets, model.SampleLinkPackets:
			d.OutPackets = rate
		case model.SampleDroppedPackets, model.SampleLinkOverflow:
			d.Dropped = rate
		}
	}
	return all
}

func deviceOf(subject string) (kind, place, name string, ok bool) {
	if link, ok := strings.CutPrefix(subject, model.SubjectLink); ok {
		return KindLink, link, "", true
	}
	return model.CutDeviceSubject(subject)
}

// counted is how much a counter of all subjects that begin so grew in the
// window; false if there is none.
func counted(o *model.Outcome, subject, name string) (sum float64, found bool) {
	for _, s := range o.Samples {
		if s.Metric == name && strings.HasPrefix(s.Subject, subject) {
			grown, covered := Delta(s, o.Window)
			sum, found = sum+grown, found || covered > 0
		}
	}
	return sum, found
}

// fragments are those made by all stacks, senders' and routers', per datagram.
func fragments(o *model.Outcome) (float64, error) {
	d := o.Load.Datagrams
	made, found := counted(o, model.SubjectStack, model.SampleFragments)
	switch {
	case d == nil:
		return 0, errNoDatagrams
	case d.Sent == 0:
		return 0, errors.New("no datagram was sent")
	case !found:
		return 0, errNoTraffic
	}
	return made / float64(d.Sent), nil
}

// efficiency is the payload that reached pods' devices by what the underlay
// carried for it, in both directions, with Ethernet's headers and what was sent
// again. Both are devices' counters, read in one go: the window's edges, which a
// busy host sees at other times than the generator, are no part of it.
func efficiency(o *model.Outcome) (float64, error) {
	inner, outer, err := headers(o)
	if err != nil {
		return 0, err
	}
	underlay, pods := model.SubjectDevice+model.PlaceUnderlay+" ", model.SubjectDevice+model.PlacePod+" "
	bytes, found := counted(o, underlay, model.SampleReceivedBytes)
	arrived, _ := counted(o, pods, model.SampleReceivedBytes)
	frames, _ := counted(o, pods, model.SampleReceivedPackets)
	payload := arrived - frames*inner
	const most = 2 // fewer bytes than half of the payload: they are not its
	switch {
	case !found:
		return 0, errNoTraffic
	case payload <= 0:
		return 0, errors.New("nothing arrived")
	case bytes*most < payload:
		return 0, errSameNode
	case o.Load.Stream == nil:
		return payload / bytes, nil
	}
	packets, _ := counted(o, underlay, model.SampleReceivedPackets)
	segments, _ := counted(o, model.SubjectStack+model.PlacePod+" ", model.SampleSegments)
	return payload / (bytes + max(0, segments-packets)*(inner+outer)), nil
}

func errUnless(ok bool, err error) error {
	if ok {
		return nil
	}
	return err
}

// headers are how many bytes of a packet of the load are not payload: on a pod's
// device Ethernet's, IP's and the transport's, and the encapsulation's besides.
// Devices count them once for segments that the kernel keeps whole, where the
// wire would have them on each.
func headers(o *model.Outcome) (inner, outer float64, err error) {
	const ethernet, ipAndUDP = 14, 20 + 8
	overhead := factNumber(o.Ledger, model.FactOverhead)
	switch l := o.Load; {
	case l.Datagrams != nil && l.Datagrams.Offload:
		return 0, 0, errOffloaded
	case l.Datagrams != nil:
		return ethernet + ipAndUDP, float64(overhead), nil
	case l.Stream == nil:
		return 0, 0, errNoFlow
	}
	mtu := factNumber(o.Ledger, model.FactMTU)
	mss := o.Load.Stream.MSS
	if mtu == 0 || mss <= 0 || mtu <= mss {
		return 0, 0, fmt.Errorf("the headers are not known: the pods' MTU is %d and the segments' size is %d", mtu, mss)
	}
	return float64(ethernet + mtu - mss), float64(overhead), nil
}

// factNumber is the number that a fact's value begins with; 0: there is none. Of several the last
// counts: what the witness read off the underlay comes before what layers say
// of the pods.
func factNumber(l model.Ledger, key string) int {
	for _, f := range slices.Backward(l) {
		text, _, _ := strings.Cut(f.Value, " ")
		if n, err := strconv.Atoi(text); f.Key == key && err == nil {
			return n
		}
	}
	return 0
}

// clientPackets are those that passed the devices of the pods that send, both
// ways, in thousands.
func clientPackets(o *model.Outcome) (float64, error) {
	var sum float64
	found := false
	for _, u := range Usages(o) {
		if u.Component != string(model.ComponentGenerator) {
			continue
		}
		for _, counter := range []string{model.SampleReceivedPackets, model.SampleSentPackets} {
			n, ok := counted(o, model.SubjectDevice+model.PlacePod+" "+u.Pod+" ", counter)
			sum, found = sum+n, found || ok
		}
	}
	switch {
	case !found:
		return 0, errNoTraffic
	case sum == 0:
		return 0, errors.New("no packet passed the client's device")
	}
	return sum / 1000, nil
}

// hostCPU is the time of the host's CPUs that a part of "cpu" asks for; false if
// it asks for a component's.
func hostCPU(o *model.Outcome, part string) (seconds float64, asked bool, err error) {
	counter := map[string]string{"host": model.SampleBusy, "softirq": model.SampleSoftIRQ}[part]
	if counter == "" {
		return 0, false, nil
	}
	seconds, found := counted(o, model.SubjectHost, counter)
	return seconds, true, errUnless(found, errors.New("the host's CPU time was not sampled"))
}
