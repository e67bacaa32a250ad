// Package wire says what really is on the wire: it reads the first bytes of
// every TCP connection that leaves or enters the client's node, and names the
// protocol that they speak; and it names what the pods' packets are carried in.
package wire

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/packet"
)

// Name is the layer under which the witness's facts stand in the ledger.
const Name = "wire"

// device is the node's end of the underlay.
const device = "eth0"

// Witness watches the underlay of the node that holds a pod. Traffic between
// pods of one node does not pass there and is not seen. Where the underlay
// shows sealed packets only, what they hold is read where the node seals them.
type Witness struct{}

// Watch begins to watch; stop ends it and returns what was seen. stop must be
// called, whatever becomes of ctx.
func (Witness) Watch(_ context.Context, s model.Site, pod string) (stop func() (model.Ledger, error), err error) {
	node, err := nodeOf(s, pod)
	if err != nil {
		return nil, err
	}
	outer, err := listen(node, device, ranges(s))
	if err != nil {
		return nil, err
	}
	var inner *listener
	tunnel, err := tunnelOf(s, node)
	if err == nil && tunnel != "" {
		inner, err = listen(node, tunnel, nil)
	}
	if err != nil {
		return nil, errors.Join(err, outer.stop())
	}
	return func() (model.Ledger, error) {
		err := errors.Join(outer.stop(), inner.stop())
		spoken, asked := outer.spoken(), outer.asked()
		if inner != nil && spoken == "" {
			spoken = inner.spoken()
		}
		if inner != nil && asked == "" {
			asked = inner.asked()
		}
		ledger := model.Ledger{{Layer: Name, Key: model.FactMTU, Value: strconv.Itoa(outer.socket.MTU()), Source: model.SourceConfig}}
		for _, f := range [][2]string{{model.FactEncapsulation, outer.carriers()}, {model.FactWireProtocol, spoken}, {model.FactWirePorts, asked}} {
			if f[1] != "" {
				ledger = append(ledger, model.Fact{Layer: Name, Key: f[0], Value: f[1], Source: model.SourceWire})
			}
		}
		return ledger, err
	}, nil
}

// listener gathers what passes one device.
type listener struct {
	carried
	socket *packet.Socket
	done   chan error
}

// listen begins to gather.
func listen(node model.Namespace, device string, pods []netip.Prefix) (*listener, error) {
	l := &listener{carried: carried{pods: pods}, done: make(chan error, 1)}
	err := node.InNetwork(func() (err error) {
		l.socket, err = packet.Listen(device)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.Name(), err)
	}
	go func() { l.done <- l.socket.Receive(l.packet) }()
	return l, nil
}

// stop ends gathering; what has come is taken into account. No listener is fine.
func (l *listener) stop() error {
	if l == nil {
		return nil
	}
	err := l.socket.Stop()
	if err != nil {
		err = errors.Join(err, l.socket.Close()) // ends Receive, too
	}
	return errors.Join(err, <-l.done, l.socket.Close())
}

// ranges are the addresses of all pods.
func ranges(s model.Site) []netip.Prefix {
	var all []netip.Prefix
	if wired, ok := s.(model.WiredSite); ok {
		for _, w := range wired.Wiring() {
			all = append(all, w.Range)
		}
	}
	return all
}

// tunnelOf is the device through which a node reaches other nodes' pods, where
// that is not the underlay's; "": there is none.
func tunnelOf(s model.Site, node model.Namespace) (name string, err error) {
	wired, ok := s.(model.WiredSite)
	if !ok {
		return "", nil
	}
	all := wired.Wiring()
	var network string
	for _, w := range all {
		if w.Node == node.Name() {
			network = w.Network
		}
	}
	err = node.InNetwork(func() error {
		net, failure := sys.OpenHere()
		if failure != nil {
			return failure
		}
		defer net.Close()
		for _, w := range all {
			if w.Node == node.Name() || w.Network != network || name != "" {
				continue
			}
			over, _, _, failure := net.RouteTo(w.Range)
			if failure != nil {
				return failure
			}
			if over != device {
				name = over
			}
		}
		return nil
	})
	return name, err
}

// nodeOf finds the node that holds a pod.
func nodeOf(s model.Site, pod string) (model.Namespace, error) {
	nodes, ok := s.(model.NodeSite)
	if !ok {
		return nil, &model.UnsupportedError{What: "watching the wire", Missing: "this target's nodes have no network namespace to watch in"}
	}
	name, err := s.Topology().NodeOf(pod)
	if err != nil {
		return nil, err
	}
	return nodes.Node(name)
}
