package load

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"iter"
	"net"
	"time"
)

// secured is TLS on one connection without any I/O of its own: received bytes
// go in, bytes to send come out. The handshake, which the standard library
// writes as if reading could wait, runs as a coroutine that is left whenever it
// wants more bytes than there are.
type secured struct {
	conn    *tls.Conn
	in      []byte // received and not yet taken
	out     []byte // to send
	resume  func() (error, bool)
	stop    func()
	suspend func() bool // inside the handshake: waits for more of in
	ended   bool        // the peer sends no more
}

// secure begins a TLS connection; nothing is sent before handshake is called.
func secure(config *tls.Config) *secured {
	s := &secured{out: make([]byte, 0, 4096)}
	s.conn = tls.Client(memory{s}, config)
	s.resume, s.stop = iter.Pull(func(yield func(error) bool) {
		s.suspend = func() bool { return yield(nil) }
		err := s.conn.HandshakeContext(context.Background())
		s.suspend = nil
		if err != nil {
			yield(err)
		}
	})
	return s
}

// handshake goes on with what has been received; done says that it is complete.
func (s *secured) handshake() (done bool, err error) {
	err, more := s.resume()
	return !more, err
}

// seal adds records that carry plain to what is to be sent.
func (s *secured) seal(plain []byte) error {
	_, err := s.conn.Write(plain)
	return err
}

// open decrypts what has been received, as much as into holds; nothing: all has
// been taken. io.EOF is the peer's end.
func (s *secured) open(into []byte) ([]byte, error) {
	n, err := s.conn.Read(into)
	if n > 0 || errors.Is(err, noMoreError{}) {
		return into[:n], nil
	}
	return nil, err
}

// close gives up a handshake that is under way.
func (s *secured) close() { s.stop() }

// memory is the net.Conn below TLS.
type memory struct{ *secured }

var _ net.Conn = memory{}

// Read takes from what has been received. Where there is nothing it leaves the
// handshake or, later, says that there is no more for now, which TLS takes for
// temporary.
func (m memory) Read(b []byte) (int, error) {
	for len(m.in) == 0 {
		switch {
		case m.ended:
			return 0, io.EOF
		case m.suspend == nil:
			return 0, noMoreError{}
		case !m.suspend():
			return 0, net.ErrClosed
		}
	}
	n := copy(b, m.in)
	m.in = m.in[n:]
	return n, nil
}

// Write keeps what is to be sent.
func (m memory) Write(b []byte) (int, error) {
	m.out = append(m.out, b...)
	return len(b), nil
}

func (memory) Close() error                     { return nil }
func (memory) LocalAddr() net.Addr              { return nil }
func (memory) RemoteAddr() net.Addr             { return nil }
func (memory) SetDeadline(time.Time) error      { return nil }
func (memory) SetReadDeadline(time.Time) error  { return nil }
func (memory) SetWriteDeadline(time.Time) error { return nil }

// noMoreError says that all that was received has been taken. It is a net.Error that
// is temporary: the standard library goes on at the next Read where it left off.
type noMoreError struct{}

var _ net.Error = noMoreError{}

func (noMoreError) Error() string   { return "no more for now" }
func (noMoreError) Timeout() bool   { return true }
func (noMoreError) Temporary() bool { return true }
