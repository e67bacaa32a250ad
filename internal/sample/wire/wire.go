// Package wire says what really is on the wire: it reads the first bytes of
// every TCP connection that leaves or enters the client's node, and names the
// protocol that they speak.
package wire

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys/packet"
)

// Name is the layer under which the witness's facts stand in the ledger.
const Name = "wire"

// device is the node's end of the underlay.
const device = "eth0"

// Witness watches the underlay of the node that holds a pod. Traffic between
// pods of one node does not pass there and is not seen.
type Witness struct{}

// Watch begins to watch; stop ends it and returns what was seen. stop must be
// called, whatever becomes of ctx.
func (Witness) Watch(_ context.Context, s model.Site, pod string) (stop func() (model.Ledger, error), err error) {
	socket, err := listen(s, pod)
	if err != nil {
		return nil, err
	}
	var seen watch
	done := make(chan error, 1)
	go func() { done <- socket.Receive(seen.packet) }()
	return func() (model.Ledger, error) {
		err := socket.Stop()
		if err != nil {
			err = errors.Join(err, socket.Close()) // ends Receive, too
		}
		err = errors.Join(err, <-done, socket.Close())
		ledger := model.Ledger{{Layer: Name, Key: model.FactMTU, Value: strconv.Itoa(socket.MTU()), Source: model.SourceConfig}}
		if spoken := seen.spoken(); spoken != "" {
			ledger = append(ledger, model.Fact{Layer: Name, Key: model.FactWireProtocol, Value: spoken, Source: model.SourceWire})
		}
		return ledger, err
	}, nil
}

func listen(s model.Site, pod string) (*packet.Socket, error) {
	nodes, ok := s.(model.NodeSite)
	if !ok {
		return nil, &model.UnsupportedError{What: "watching the wire", Missing: "this target's nodes have no network namespace to watch in"}
	}
	name, err := s.Topology().NodeOf(pod)
	if err != nil {
		return nil, err
	}
	node, err := nodes.Node(name)
	if err != nil {
		return nil, err
	}
	var socket *packet.Socket
	err = node.InNetwork(func() (err error) {
		socket, err = packet.Listen(device)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return socket, nil
}
