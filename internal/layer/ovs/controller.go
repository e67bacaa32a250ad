package ovs

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/openflow"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// silence is how long a switch may say nothing before it is asked for a sign.
const silence = 10 * time.Second

// Serve is the controller: it tells every switch that connects what to do,
// until the context ends. It keeps no state: a controller that comes back does
// the same again, and switches go on meanwhile.
func Serve(ctx context.Context, planFile string, log *slog.Logger) error {
	raw, err := sys.ReadFile(planFile)
	if err != nil {
		return fmt.Errorf("reading the controller's plan: %w", err)
	}
	c := controller{log: log}
	if err = json.Unmarshal(raw, &c.plan); err != nil {
		return fmt.Errorf("reading the controller's plan: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", c.plan.Listen.String())
	if err != nil {
		return fmt.Errorf("listening for switches: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // ends Accept
	defer stop()
	var sessions sync.WaitGroup
	defer sessions.Wait()
	for {
		conn, err := listener.Accept()
		if err != nil && ctx.Err() != nil {
			return nil // we were asked to end
		}
		if err != nil {
			return errors.Join(fmt.Errorf("waiting for switches: %w", err), listener.Close())
		}
		sessions.Go(func() {
			end := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends the session
			defer end()
			if err := c.session(conn); err != nil && ctx.Err() == nil {
				log.Warn("a switch is lost", "at", conn.RemoteAddr().String(), "error", err.Error())
			}
		})
	}
}

type controller struct {
	plan plan
	log  *slog.Logger
}

// session serves one switch until it is gone.
func (c controller) session(conn net.Conn) error {
	s, err := openflow.Connect(conn)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // the switch is gone, or is to be
	m, ok := c.plan.byDatapath(s.Features.Datapath)
	if !ok {
		return fmt.Errorf("the switch %#x is not of this network", s.Features.Datapath)
	}
	if err := c.install(s, m); err != nil {
		return fmt.Errorf("the switch of node %s: %w", m.Node, err)
	}
	for {
		message, err := s.Next(silence)
		if err != nil {
			return fmt.Errorf("the switch of node %s: %w", m.Node, err)
		}
		switch message.Type {
		case openflow.TypePortStatus:
			err = c.install(s, m)
		case openflow.TypePacketIn:
			err = c.packet(s, message.Body)
		case openflow.TypeError:
			err = openflow.ParseError(message.Body)
		default: // nothing else was asked for
		}
		if err != nil {
			return fmt.Errorf("the switch of node %s: %w", m.Node, err)
		}
	}
}

// install makes a switch do what its ports of now ask for. Flows that it has
// already stay without a break; those that are no longer right go last.
func (c controller) install(s *openflow.Switch, m machine) error {
	ports, err := portsOf(s)
	if err != nil {
		return err
	}
	cookie := uint64(time.Now().UnixNano()) // any number that the last time did not have
	flows := c.plan.flows(m, ports, cookie)
	if err := s.Install(c.plan.groups(), flows); err != nil {
		return err
	}
	c.log.Info("installed", "node", m.Node, "ports", len(ports), "flows", len(flows))
	return s.Retain(cookie)
}

// portsOf are a switch's ports by name.
func portsOf(s *openflow.Switch) (map[string]uint32, error) {
	all, err := s.Ports()
	if err != nil {
		return nil, err
	}
	ports := map[string]uint32{}
	for _, p := range all {
		ports[p.Name] = p.Number
	}
	return ports, nil
}

// packet answers what a switch has no flow for: who has the address of a pod
// on another node. The gateway of who asks has: packets to that pod go there.
func (c controller) packet(s *openflow.Switch, body []byte) error {
	in, err := openflow.ParsePacketIn(body)
	if err != nil {
		return err
	}
	m, ok := c.plan.byDatapath(s.Features.Datapath)
	asked, err := parseARP(in.Data)
	if err != nil || !ok || !c.plan.knows(asked.target) {
		return nil //nolint:nilerr // nobody here has that address, and what is no question has no answer
	}
	return s.Emit(in.Port, asked.answer(sys.MAC(m.Gateway)))
}

// question is an ARP request.
type question struct {
	mac            net.HardwareAddr
	sender, target netip.Addr
}

// arpSize is a frame with an ARP message for IPv4 (RFC 826).
const arpSize = 14 + 28

// parseARP reads a frame.
func parseARP(frame []byte) (q question, err error) {
	if len(frame) < arpSize {
		return q, fmt.Errorf("a frame of %d bytes is no ARP request", len(frame))
	}
	forIPv4 := []byte{0, 1, 8, 0, 6, 4, 0, request} // Ethernet, IPv4, the sizes of both
	if binary.BigEndian.Uint16(frame[12:]) != openflow.EtherARP || !bytes.Equal(frame[14:22], forIPv4) {
		return q, errors.New("the frame is no ARP request")
	}
	q.mac = bytes.Clone(frame[22:28])
	q.sender, q.target = netip.AddrFrom4([4]byte(frame[28:32])), netip.AddrFrom4([4]byte(frame[38:42]))
	return q, nil
}

// answer is the frame that says which hardware address it is.
func (q question) answer(mac net.HardwareAddr) []byte {
	b := append(bytes.Clone(q.mac), mac...)
	b = append(b, 8, 6, 0, 1, 8, 0, 6, 4, 0, reply)
	b = append(append(b, mac...), q.target.AsSlice()...)
	return append(append(b, q.mac...), q.sender.AsSlice()...)
}
