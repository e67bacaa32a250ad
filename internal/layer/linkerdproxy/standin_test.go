package linkerdproxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/bufbuild/protocompile"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/windtunnel/windtunnel/internal/labtest"
)

// The vendor's proxy is in no registry that tests can count on. What stands in for
// it is this test binary: it reads the same environment, asks the same control
// plane for the same things, has the same ports and proves itself by mutual TLS,
// but passes connections on as they are, and counts each as one request.
func TestMain(m *testing.M) {
	if os.Getenv("LINKERD2_PROXY_IDENTITY_DIR") != "" {
		if err := standIn(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "stand-in:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve})
}

// api is the subset of Linkerd's API that is spoken, from its text.
type api struct{ file protoreflect.FileDescriptor }

func loadAPI(ctx context.Context, text string) (api, error) {
	source := &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"linkerd.proto": text})}
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(source)}
	files, err := c.Compile(ctx, "linkerd.proto")
	if err != nil {
		return api{}, err
	}
	return api{files[0]}, nil
}

func (a api) message(name, json string) (*dynamicpb.Message, error) {
	m := dynamicpb.NewMessage(a.file.Messages().ByName(protoreflect.Name(name)))
	if json == "" {
		return m, nil
	}
	return m, protojson.Unmarshal([]byte(json), m)
}

// path follows fields by name; a number is an index.
func path(m protoreflect.Message, names ...string) protoreflect.Value {
	v := protoreflect.ValueOfMessage(m)
	for _, name := range names {
		if i, err := strconv.Atoi(name); err == nil {
			v = v.List().Get(i)
			continue
		}
		v = v.Message().Get(v.Message().Descriptor().Fields().ByName(protoreflect.Name(name)))
	}
	return v
}

type stand struct {
	api     api
	conn    *grpc.ClientConn
	cert    tls.Certificate
	anchors *x509.CertPool
	mtls    map[uint16]bool // ports that only let in who proves an identity
	mu      sync.Mutex
	counts  map[string]int // by labels
	turn    int
}

func env(name string) string { return os.Getenv("LINKERD2_PROXY_" + name) }

func standIn(ctx context.Context) error {
	var err error
	s := &stand{mtls: map[uint16]bool{}, counts: map[string]int{}, anchors: x509.NewCertPool()}
	if s.api, err = loadAPI(ctx, apiText); err != nil {
		return err
	}
	if !s.anchors.AppendCertsFromPEM([]byte(env("IDENTITY_TRUST_ANCHORS"))) {
		return errors.New("no trust anchors")
	}
	s.conn, err = grpc.NewClient("passthrough:///"+env("DESTINATION_SVC_ADDR"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	if err = errors.Join(s.certify(ctx), s.policies(ctx)); err != nil {
		return err
	}
	failed := make(chan error, 3)
	go func() {
		failed <- s.serve(env("OUTBOUND_LISTEN_ADDR"), func(c *net.TCPConn) error { return s.out(ctx, c) })
	}()
	go func() { failed <- s.serve(env("INBOUND_LISTEN_ADDR"), s.in) }()
	go func() { failed <- http.ListenAndServe(env("ADMIN_LISTEN_ADDR"), http.HandlerFunc(s.admin)) }()
	return <-failed
}

func (s *stand) certify(ctx context.Context) error {
	csr, err := os.ReadFile(filepath.Join(env("IDENTITY_DIR"), "csr.der"))
	if err != nil {
		return err
	}
	pkcs8, err := os.ReadFile(filepath.Join(env("IDENTITY_DIR"), "key.p8"))
	if err != nil {
		return err
	}
	request, err := s.api.message("CertifyRequest", fmt.Sprintf(`{"identity": %q}`, env("IDENTITY_LOCAL_NAME")))
	if err != nil {
		return err
	}
	request.Set(request.Descriptor().Fields().ByName("certificate_signing_request"), protoreflect.ValueOfBytes(csr))
	answer, err := s.api.message("CertifyResponse", "")
	if err != nil {
		return err
	}
	if err = s.conn.Invoke(ctx, methodCertify, request, answer); err != nil {
		return err
	}
	s.cert.Certificate = [][]byte{path(answer, "leaf_certificate").Bytes()}
	s.cert.PrivateKey, err = x509.ParsePKCS8PrivateKey(pkcs8)
	return err
}

// first is the first message of what is watched.
func (s *stand) first(ctx context.Context, method, in, request, out string) (*dynamicpb.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	question, err := s.api.message(in, request)
	if err != nil {
		return nil, err
	}
	answer, err := s.api.message(out, "")
	if err != nil {
		return nil, err
	}
	stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	if err = errors.Join(stream.SendMsg(question), stream.CloseSend()); err != nil {
		return nil, err
	}
	return answer, stream.RecvMsg(answer)
}

func (s *stand) policies(ctx context.Context) error {
	for port := range strings.SplitSeq(env("INBOUND_PORTS"), ",") {
		if port == "" {
			continue
		}
		policy, err := s.first(ctx, methodPort, "PortSpec", fmt.Sprintf(`{"workload": %q, "port": %s}`, env("POLICY_WORKLOAD"), port), "Server")
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return err
		}
		permit := path(policy, "authorizations", "0", "authentication").Message()
		s.mtls[uint16(n)] = permit.Has(permit.Descriptor().Fields().ByName("meshTLS"))
	}
	return nil
}

func (s *stand) serve(addr string, handle func(*net.TCPConn) error) error {
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			if conn, ok := c.(*net.TCPConn); ok {
				if err := handle(conn); err != nil {
					fmt.Fprintln(os.Stderr, "stand-in:", err)
				}
			}
			_ = c.Close()
		}()
	}
}

// original is where a redirected connection was going.
func original(c syscall.Conn) (addr netip.AddrPort, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return addr, err
	}
	var got *unix.IPv6Mreq // large enough for an address of IPv4
	failure := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST) })
	if err = errors.Join(failure, err); err != nil {
		return addr, err
	}
	b := got.Multiaddr
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3])), nil
}

func (s *stand) out(ctx context.Context, c *net.TCPConn) error {
	dst, err := original(c)
	if err != nil {
		return err
	}
	b := dst.Addr().As4()
	spec := fmt.Sprintf(`{"addr": {"ip": {"ipv4": %d}, "port": %d}}`, uint32(b[0])<<24|uint32(b[1])<<16|uint32(b[2])<<8|uint32(b[3]), dst.Port())
	policy, err := s.first(ctx, methodWatch, "TrafficSpec", spec, "OutboundPolicy")
	if err != nil {
		return err
	}
	target := path(policy, "protocol", "detect", "http1", "routes", "0", "rules", "0", "backends", "first_available", "backends", "0",
		"backend", "balancer", "discovery", "dst", "path").String()
	update, err := s.first(ctx, methodGet, "GetDestination", fmt.Sprintf(`{"path": %q}`, target), "Update")
	if err != nil {
		return err
	}
	addrs := path(update, "add", "addrs").List()
	s.mu.Lock()
	s.turn++
	chosen := addrs.Get(s.turn % addrs.Len()).Message()
	s.mu.Unlock()
	v4, port := uint32(path(chosen, "addr", "ip", "ipv4").Uint()), path(chosen, "addr", "port").Uint()
	to := fmt.Sprintf("%d.%d.%d.%d:%d", v4>>24, v4>>16&0xff, v4>>8&0xff, v4&0xff, port)
	up, err := tls.Dial("tcp4", to, &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: s.anchors, Certificates: []tls.Certificate{s.cert},
		ServerName: path(chosen, "tls_identity", "dns_like_identity", "name").String(),
	})
	if err != nil {
		return err
	}
	s.count(fmt.Sprintf(`direction="outbound",target_addr=%q,tls="true"`, to))
	return join(c, c, up)
}

func (s *stand) in(c *net.TCPConn) error {
	dst, err := original(c)
	if err != nil {
		return err
	}
	buffered := bufio.NewReader(c)
	begin, err := buffered.Peek(1)
	if err != nil {
		return err
	}
	labels := fmt.Sprintf(`direction="inbound",target_addr=%q`, dst)
	const handshake = 0x16
	if begin[0] != handshake {
		if s.mtls[dst.Port()] {
			return errors.New("refused: no mutual TLS")
		}
		s.count(labels + `,tls="no_identity"`)
		return s.pass(buffered, c, dst.Port())
	}
	secure := tls.Server(peeked{c, buffered}, &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: s.anchors, Certificates: []tls.Certificate{s.cert},
	})
	if err := secure.Handshake(); err != nil {
		return err
	}
	s.count(labels + fmt.Sprintf(`,tls="true",client_id=%q`, secure.ConnectionState().PeerCertificates[0].DNSNames[0]))
	return s.pass(secure, secure, dst.Port())
}

// peeked is a connection of which something has been read.
type peeked struct {
	net.Conn
	r io.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

func (s *stand) pass(r io.Reader, w io.WriteCloser, port uint16) error {
	up, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	return join(r, w, up)
}

// join copies both ways until either end closes.
func join(r io.Reader, w io.WriteCloser, up net.Conn) error {
	var wg sync.WaitGroup
	var errs [2]error
	copies := func(i int, to io.WriteCloser, from io.Reader) {
		_, errs[i] = io.Copy(to, from)
		_ = up.Close()
		_ = w.Close()
	}
	wg.Go(func() { copies(0, up, r) })
	wg.Go(func() { copies(1, w, up) })
	wg.Wait()
	for _, err := range errs { // that a connection was closed is how it ends
		if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.ECONNRESET) {
			return err
		}
	}
	return nil
}

func (s *stand) count(labels string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[labels]++
}

func (s *stand) admin(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		return // ready: it has its certificate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(w, "# TYPE proxy_build_info gauge\nproxy_build_info{version=\"stand-in\"} 1\n# TYPE request_total counter\n")
	for labels, n := range s.counts {
		_, _ = fmt.Fprintf(w, "request_total{%s} %d\n", labels, n)
	}
}
