package load

import (
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"testing"
)

// echoing is a client connection, its handshake done, to a TLS server that
// returns what it gets.
func echoing(t *testing.T) (*secured, net.Conn) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	wire, other := net.Pipe()
	t.Cleanup(func() { _ = wire.Close() })
	go func() {
		c := tls.Server(other, &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS13})
		_, _ = io.Copy(c, c) // ends with the pipe
	}()
	s := secure(&tls.Config{InsecureSkipVerify: true})
	buf := make([]byte, 16<<10)
	for {
		done, err := s.handshake()
		if err != nil {
			t.Fatal(err)
		}
		if _, err = wire.Write(s.out); err != nil {
			t.Fatal(err)
		}
		s.out = s.out[:0]
		if done {
			return s, wire
		}
		n, err := wire.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		s.in = buf[:n]
	}
}

// The standard library allocates 24 bytes for each time that it looks for a
// record, and so twice for one in the best case; nothing else may.
func TestAllocationsOfTLS(t *testing.T) { //nolint:paralleltest // AllocsPerRun panics in parallel tests
	s, wire := echoing(t)
	buf, plain, message := make([]byte, 16<<10), make([]byte, 16<<10), []byte("hello")
	exchange := func() {
		s.out = s.out[:0]
		if err := s.seal(message); err != nil {
			t.Fatal(err)
		}
		if _, err := wire.Write(s.out); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < len(message); {
			n, err := wire.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			s.in = buf[:n]
			for n := 1; n > 0; got += n {
				b, err := s.open(plain)
				if err != nil {
					t.Fatal(err)
				}
				n = len(b)
			}
		}
	}
	exchange() // takes session tickets too
	if n := testing.AllocsPerRun(500, exchange); n > 4 {
		t.Errorf("%v allocations for a request and its answer, server included", n)
	}
}
