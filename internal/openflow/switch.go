package openflow

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"time"
)

// Switch is the other end of a connection, after the handshake. It is used by
// one goroutine.
type Switch struct {
	Features Features
	conn     net.Conn
	in       *bufio.Reader
	xid      uint32
	waiting  []Message // that came while an answer was waited for
}

// maxWaiting bounds what may come while an answer is waited for.
const maxWaiting = 10_000

// answerTime is how long a switch may take to answer.
const answerTime = 10 * time.Second

// ErrVersion is the cause where the two ends have no version in common.
var ErrVersion = errors.New("the switch does not speak OpenFlow 1.3")

// Connect shakes hands over a connection, which it closes where that fails.
func Connect(c net.Conn) (*Switch, error) {
	s := &Switch{conn: c, in: bufio.NewReader(c)}
	if err := s.handshake(); err != nil {
		return nil, errors.Join(fmt.Errorf("greeting the switch at %s: %w", c.RemoteAddr(), err), c.Close())
	}
	return s, nil
}

func (s *Switch) handshake() error {
	if _, err := s.send(TypeHello, hello()); err != nil {
		return err
	}
	if err := s.conn.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	first, err := Read(s.in)
	if err != nil {
		return err
	}
	// The lower of the two versions holds; ours is what Open vSwitch's is where
	// its bridge is told so.
	if first.Type != TypeHello || first.Version < version {
		return fmt.Errorf("%w: its first message has version %d and type %d", ErrVersion, first.Version, first.Type)
	}
	answer, err := s.ask(TypeFeaturesRequest, nil, TypeFeaturesReply)
	if err != nil {
		return err
	}
	s.Features, err = ParseFeatures(answer.Body)
	return err
}

// Close ends the connection.
func (s *Switch) Close() error { return s.conn.Close() }

func (s *Switch) send(t Type, body []byte) (xid uint32, err error) {
	s.xid++
	return s.xid, s.write(Message{Type: t, XID: s.xid, Body: body})
}

func (s *Switch) write(m Message) error {
	b, err := m.Append(nil)
	if err != nil {
		return err
	}
	if err = s.conn.SetWriteDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	_, err = s.conn.Write(b)
	return err
}

// read reads the next message that is not an echo; those it answers.
func (s *Switch) read(patience time.Duration) (Message, error) {
	for {
		if err := s.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return Message{}, err
		}
		m, err := Read(s.in)
		if err != nil {
			return Message{}, err
		}
		switch m.Type {
		case TypeEchoRequest:
			if err := s.write(Message{Type: TypeEchoReply, XID: m.XID, Body: m.Body}); err != nil {
				return Message{}, err
			}
		case TypeEchoReply:
		default:
			return m, nil
		}
	}
}

// Next is the next message that the switch has sent by itself. A switch that
// says nothing for as long as patience is asked whether it is there; the second
// time, it is given up.
func (s *Switch) Next(patience time.Duration) (Message, error) {
	if len(s.waiting) > 0 {
		m := s.waiting[0]
		s.waiting = s.waiting[1:]
		return m, nil
	}
	m, err := s.read(patience)
	if silent, ok := errors.AsType[net.Error](err); !ok || !silent.Timeout() {
		return m, err
	}
	if _, err := s.send(TypeEchoRequest, nil); err != nil {
		return Message{}, err
	}
	return s.read(patience)
}

// ask sends a message and waits for its answer. What the switch refuses before
// is an error, too: its answers come in order.
func (s *Switch) ask(t Type, body []byte, want Type) (Message, error) {
	xid, err := s.send(t, body)
	if err != nil {
		return Message{}, err
	}
	return s.answer(xid, want)
}

func (s *Switch) answer(xid uint32, want Type) (Message, error) {
	for {
		m, err := s.read(answerTime)
		switch {
		case err != nil:
			return Message{}, err
		case m.Type == TypeError:
			return Message{}, ParseError(m.Body)
		case m.XID == xid && m.Type == want:
			return m, nil
		case len(s.waiting) >= maxWaiting:
			return Message{}, fmt.Errorf("the switch has sent %d messages and no answer", maxWaiting)
		}
		s.waiting = append(s.waiting, m)
	}
}

// parts asks a question and hands each part of the answer to f.
func (s *Switch) parts(kind uint16, body []byte, f func(body []byte) error) error {
	m, err := s.ask(TypeMultipartRequest, question(kind, body), TypeMultipartReply)
	for err == nil {
		var p Part
		if p, err = ParsePart(m.Body); err == nil && p.Kind != kind {
			err = fmt.Errorf("the switch answers question %d with answer %d", kind, p.Kind)
		}
		if err == nil {
			err = f(p.Body)
		}
		if err != nil || !p.More {
			return err
		}
		m, err = s.answer(m.XID, TypeMultipartReply)
	}
	return err
}

// lists is parts of an answer that is a list.
func lists[T any](s *Switch, kind uint16, body []byte, parse func([]byte) ([]T, error)) (all []T, err error) {
	err = s.parts(kind, body, func(body []byte) error {
		some, failure := parse(body)
		all = append(all, some...)
		return failure
	})
	return all, err
}

// Program is what the switch is, with its version.
func (s *Switch) Program() (program string, err error) {
	err = s.parts(partProgram, nil, func(body []byte) (err error) {
		program, err = ParseProgram(body)
		return err
	})
	return program, err
}

// Ports lists the ports.
func (s *Switch) Ports() ([]Port, error) { return lists(s, partPortDescs, nil, ParsePorts) }

// PortCounters reads those of all ports.
func (s *Switch) PortCounters() ([]PortCounters, error) {
	return lists(s, partPorts, one(PortAny), ParsePortCounters)
}

// Flows lists all flows with their counters.
func (s *Switch) Flows() ([]FlowCounters, error) {
	return lists(s, partFlows, allFlows(), ParseFlowCounters)
}

// Groups lists all groups with their counters.
func (s *Switch) Groups() ([]GroupCounters, error) {
	return lists(s, partGroups, one(GroupAll), ParseGroupCounters)
}

// Install puts groups and flows into the switch, and returns when they act.
func (s *Switch) Install(groups []Group, flows []Flow) error {
	for _, g := range groups {
		if _, err := s.send(TypeGroupMod, g.Put()); err != nil {
			return err
		}
	}
	for _, f := range flows {
		if _, err := s.send(TypeFlowMod, f.Add()); err != nil {
			return err
		}
	}
	return s.barrier()
}

// Retain deletes all flows but those with a cookie.
func (s *Switch) Retain(cookie uint64) error {
	flows, err := s.Flows()
	if err != nil {
		return err
	}
	gone := map[uint64]bool{cookie: true}
	for _, f := range flows {
		if gone[f.Flow.Cookie] {
			continue
		}
		gone[f.Flow.Cookie] = true
		if _, err := s.send(TypeFlowMod, DeleteFlows(f.Flow.Cookie)); err != nil {
			return err
		}
	}
	return s.barrier()
}

// barrier waits until the switch has done all that it was told.
func (s *Switch) barrier() error {
	_, err := s.ask(TypeBarrierRequest, nil, TypeBarrierReply)
	return err
}

// Emit sends a packet out by a port.
func (s *Switch) Emit(port uint32, data []byte) error {
	_, err := s.send(TypePacketOut, PacketOut(PortController, data, Output(port)))
	return err
}
