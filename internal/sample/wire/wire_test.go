package wire

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/layer/wireguard"
	"github.com/windtunnel/windtunnel/internal/model"
	userspace "github.com/windtunnel/windtunnel/internal/sys/wireguard"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{wireguard.Name: func([]string) int {
		if userspace.Serve(os.Stdin, os.Stdout) != nil {
			return 1
		}
		return 0
	}})
}

// tap keeps what is written to a connection.
type tap struct {
	net.Conn
	written bytes.Buffer
}

func (t *tap) Write(b []byte) (int, error) {
	t.written.Write(b)
	return t.Conn.Write(b)
}

// handshake returns what the two ends of a real TLS handshake write.
func handshake(tb testing.TB, version uint16) (fromClient, fromServer []byte) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"server"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	a, b := net.Pipe()
	client, server := &tap{Conn: a}, &tap{Conn: b}
	done := make(chan error, 1)
	go func() {
		s := tls.Server(server, &tls.Config{MaxVersion: version, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
		_, err := io.WriteString(s, "x")
		done <- err
	}()
	c := tls.Client(client, &tls.Config{InsecureSkipVerify: true, MaxVersion: version})
	if _, err := c.Read(make([]byte, 1)); err != nil {
		tb.Fatal(err)
	}
	if err := <-done; err != nil {
		tb.Fatal(err)
	}
	return client.written.Bytes(), server.written.Bytes()
}

func TestClassify(t *testing.T) {
	t.Parallel()
	hello13, answer13 := handshake(t, tls.VersionTLS13)
	hello12, answer12 := handshake(t, tls.VersionTLS12)
	tests := map[string]struct {
		bytes, kind string
		certain     bool
	}{
		"request":             {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 in the clear", true},
		"request of 1.0":      {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.0 in the clear", true},
		"request, cut short":  {"GET /abc", other, false},
		"answer":              {"HTTP/1.1 200 OK\r\n", "HTTP/1.1 in the clear", true},
		"HTTP/9":              {"GET / HTTP/9\r\n", other, true},
		"HTTP/2 client":       {preface + "\x00", http2, true},
		"HTTP/2, cut short":   {"PRI * H", http2, false},
		"a method like PRI":   {"PRINT / HTTP/1.1\r\n", "HTTP/1.1 in the clear", true},
		"HTTP/2 server":       {"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64", http2, true},
		"HTTP/2 server, cut":  {"\x00\x00\x06\x04", other, false},
		"not SETTINGS":        {"\x00\x00\x06\x00\x00\x00\x00\x00\x00", other, true},
		"TLS 1.3 client":      {string(hello13), offered, true},
		"TLS 1.3 server":      {string(answer13), "TLSv1.3", true},
		"TLS 1.3 server, cut": {string(answer13[:60]), other, false},
		"TLS 1.2 client":      {string(hello12), offered, true},
		"TLS 1.2 server":      {string(answer12), "TLSv1.2", true},
		"TLS alert":           {"\x15\x03\x03\x00\x02\x02\x28", alerted, true},
		"TLS of version 9":    {"\x16\x09\x03\x00\x02\x02\x28", other, true},
		"TLS, odd message":    {"\x16\x03\x03\x00\x02\x0b\x28", other, true},
		"TLS, hello too long": {"\x16\x03\x03\x00\x05\x02\xff\xff\xff\x00", other, true},
		"TLS, hello too short": {
			"\x16\x03\x03\x00\x06\x02\x00\x00\x02\x03\x03", other, true,
		},
		"binary":  {"\xff\x01", other, true},
		"text":    {"hello\r\n", other, true},
		"nothing": {"", other, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, certain := classify([]byte(tt.bytes))
			if kind != tt.kind || certain != tt.certain {
				t.Errorf("got %q, %v; want %q, %v", kind, certain, tt.kind, tt.certain)
			}
		})
	}
}

// raw makes an IPv4 packet of a TCP segment.
func raw(s segment) []byte {
	p := make([]byte, 40, 40+len(s.payload))
	p[0], p[9] = 0x45, protocolTCP
	binary.BigEndian.PutUint16(p[2:], uint16(40+len(s.payload)))
	from, to := s.from.Addr().As4(), s.to.Addr().As4()
	copy(p[12:], from[:])
	copy(p[16:], to[:])
	binary.BigEndian.PutUint16(p[20:], s.from.Port())
	binary.BigEndian.PutUint16(p[22:], s.to.Port())
	binary.BigEndian.PutUint32(p[24:], s.seq)
	p[32] = 5 << 4
	if s.syn {
		p[33] |= flagSYN
	}
	if s.end {
		p[33] |= flagFIN
	}
	return append(p, s.payload...)
}

func TestWatchGathersBeginnings(t *testing.T) {
	t.Parallel()
	f := flow{netip.MustParseAddrPort("10.0.0.1:1000"), netip.MustParseAddrPort("10.0.0.2:80")}
	back := flow{f.to, f.from}
	syn := segment{flow: f, seq: 99, syn: true}
	data := func(seq uint32, text string) segment { return segment{flow: f, seq: seq, payload: []byte(text)} }
	hello, answer := handshake(t, tls.VersionTLS13)
	const request, plain = "GET / HTTP/1.1\r\n", "HTTP/1.1 in the clear"
	tests := map[string]struct {
		segments []segment
		want     string
	}{
		"nothing":          {nil, ""},
		"one":              {[]segment{syn, data(100, request)}, plain},
		"in pieces":        {[]segment{syn, data(100, request[:7]), data(107, request[7:])}, plain},
		"sent twice":       {[]segment{syn, data(100, request[:7]), data(100, request[:7]), data(107, request[7:])}, plain},
		"a gap":            {[]segment{syn, data(105, "\x16\x03\x03")}, ""},
		"beginning unseen": {[]segment{data(100, "\x16\x03\x03")}, ""},
		"wraps around":     {[]segment{{flow: f, seq: 1<<32 - 1, syn: true}, data(0, request)}, plain},
		"ended unfinished": {[]segment{syn, data(100, "hello"), {flow: f, seq: 105, end: true}}, other},
		"ended silently":   {[]segment{syn, {flow: f, seq: 100, end: true}}, ""},
		"long first line":  {[]segment{syn, data(100, strings.Repeat("x", maxPrefix+1))}, other},
		"two":              {[]segment{syn, data(100, request), {flow: back, seq: 7, syn: true}, {flow: back, seq: 8, payload: []byte("hello\r\n")}}, plain + ", " + other},
		"TLS": {[]segment{
			syn, {flow: f, seq: 100, payload: hello}, {flow: back, seq: 7, syn: true}, {flow: back, seq: 8, payload: answer},
		}, "TLSv1.3"},
		"TLS, no answer": {[]segment{syn, {flow: f, seq: 100, payload: hello}}, offered},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w watch
			for _, s := range tt.segments {
				p := raw(s)
				w.packet(append(p, make([]byte, max(0, 46-len(p)))...)) // padded, as Ethernet does
			}
			if got := w.spoken(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWatchIsBounded(t *testing.T) {
	t.Parallel()
	var w watch
	for i := range 3 * maxFlows {
		f := flow{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10}), uint16(i)), netip.MustParseAddrPort("10.0.0.2:80")}
		w.packet(raw(segment{flow: f, syn: true}))
		w.packet(raw(segment{flow: f, seq: 1, payload: []byte("GET")}))
	}
	if len(w.open) != maxFlows {
		t.Errorf("%d flows are kept, want %d", len(w.open), maxFlows)
	}
}

func FuzzWatch(f *testing.F) {
	hello, answer := handshake(f, tls.VersionTLS13)
	for _, payload := range [][]byte{hello, answer, []byte("GET / HTTP/1.1\r\n"), []byte(preface)} {
		f.Add(raw(segment{flow: flow{netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:2")}, payload: payload}))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var w watch
		s, ok := parse(p)
		if ok && len(s.payload) > s.payloadLength {
			t.Errorf("more payload than there is: %+v", s)
		}
		if ok {
			w.begin(segment{flow: s.flow, seq: s.seq - 1})
		}
		w.packet(p)
		for _, b := range w.open {
			if len(b.prefix) > maxPrefix {
				t.Errorf("%d bytes kept", len(b.prefix))
			}
		}
		if _, certain := classify(p); !certain && len(p) > 1<<15 {
			t.Error("not certain after 32 KiB")
		}
	})
}

// exchange sends text from the client to server-0, which answers.
func exchange(t *testing.T, site model.Site, text, answer string) {
	t.Helper()
	to := netip.AddrPortFrom(labtest.Pod(t, site, "server-0").Addr(), 8080)
	var l net.Listener
	labtest.In(t, site, "server-0", func() (err error) {
		l, err = net.Listen("tcp4", to.String())
		return err
	})
	done := make(chan error, 1)
	go func() {
		defer l.Close() //nolint:errcheck // its errors are of no interest
		c, err := l.Accept()
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, len(text)))
		}
		if err == nil {
			_, err = io.WriteString(c, answer)
		}
		if c != nil {
			_ = c.Close()
		}
		done <- err
	}()
	labtest.In(t, site, "client-0", func() error {
		c, err := net.DialTimeout("tcp4", to.String(), 5*time.Second)
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // its errors are of no interest
		if _, err = io.WriteString(c, text); err != nil {
			return err
		}
		got, err := io.ReadAll(c)
		if err == nil && string(got) != answer {
			err = fmt.Errorf("answered %q", got)
		}
		return err
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestWitness(t *testing.T) {
	t.Parallel()
	topology := labtest.Topology(1)
	topology.MTU = 1400
	site := labtest.Site(t, topology)
	_, answer := handshake(t, tls.VersionTLS13)
	mtu := model.Fact{Layer: Name, Key: model.FactMTU, Value: "1400", Source: model.SourceConfig}
	seen := func(v string) model.Ledger {
		return model.Ledger{
			mtu,
			{Layer: Name, Key: model.FactEncapsulation, Value: model.NoEncapsulation, Source: model.SourceWire},
			{Layer: Name, Key: model.FactWireProtocol, Value: v, Source: model.SourceWire},
			{Layer: Name, Key: model.FactWirePorts, Value: "8080", Source: model.SourceWire},
		}
	}
	for _, tt := range []struct {
		name string
		do   func()
		want model.Ledger
	}{
		{"nothing", func() {}, model.Ledger{mtu}},
		{"plaintext", func() { exchange(t, site, "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n") }, seen("HTTP/1.1 in the clear")},
		{"TLS", func() { exchange(t, site, "\x16\x03\x01\x02\x00\x01", string(answer)) }, seen("TLSv1.3")},
	} {
		stop, err := Witness{}.Watch(t.Context(), site, "client-0")
		if err != nil {
			t.Fatal(err)
		}
		tt.do()
		got, err := stop()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if _, err := (Witness{}).Watch(t.Context(), site, "nobody"); err == nil {
		t.Error("a pod that does not exist was watched")
	}
}
