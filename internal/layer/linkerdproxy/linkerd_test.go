package linkerdproxy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/oci"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/sys"
)

//go:embed testdata/linkerd.proto
var apiText string

var update = flag.Bool("update", false, "write the golden files")

func noCache() (oci.Cache, error) { return oci.Cache{}, errors.New("this test has no cache") }

func TestParse(t *testing.T) {
	t.Parallel()
	for raw, problem := range map[string]string{
		"": "",
		`{"policy": "all-authenticated", "opaque": ["redis"], "concurrency": 1}`: "",
		`{"image": "cr.l5d.io/linkerd/proxy:edge-26.8.3"}`:                       "",
		`{"policy": "deny"}`: `policy is "deny"; it can be all-unauthenticated or all-authenticated`,
		`{"concurrency": 0}`: "concurrency is 0",
		`{"image_path": "/usr/lib/linkerd/linkerd2-proxy"}`: "image_path is of no image",
		`{"image": "x:1", "path": "/p"}`:                    "image and path are two places",
		`{"mtls": "strict"}`:                                `unknown field "mtls"`,
	} {
		c, err := parse(json.RawMessage(raw))
		switch {
		case problem == "" && (err != nil || c.Concurrency != 1 || (c.Image != "") != (c.ImagePath == usualImagePath)):
			t.Errorf("%s: %+v, %v", raw, c, err)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%s: error %v, want it to say %q", raw, err, problem)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"policy": "all-authenticated", "opaque": ["redis"]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if c, err := parse(json.RawMessage(raw)); err == nil && (c.Concurrency < 1 || c.Policy != Authenticated && c.Policy != Unauthenticated) {
			t.Errorf("%q was accepted: %+v", raw, c)
		}
	})
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	l := &Layer{config: Config{Options: proxy.Options{Path: filepath.Join(t.TempDir(), "linkerd2-proxy")}}, cache: noCache}
	err := l.Check(t.Context())
	if !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "set the layer's image") || !strings.Contains(err.Error(), l.config.Path) {
		t.Errorf("error %v must say what is missing and how to get it", err)
	}
}

// fixed is a pod that is no more than its address.
type fixed struct {
	model.Pod
	addr string
}

func (f fixed) Addr() netip.Addr { return netip.MustParseAddr(f.addr) }

// plane is the control plane of the pod of a server.
func plane(tb testing.TB, policy Policy) *control {
	tb.Helper()
	ca, err := proxy.NewCA(caName, caName)
	if err != nil {
		tb.Fatal(err)
	}
	svc := func(name, vip string, opaque bool) service {
		return service{proxy.Service{
			Service:   model.Service{Name: name, Port: 80, TargetPort: 8080, VIP: netip.MustParseAddr(vip)},
			Endpoints: []model.Pod{fixed{addr: "10.128.4.2"}, fixed{addr: "10.128.4.3"}},
		}, opaque}
	}
	return &control{identity: identity("server"), ca: ca, policy: policy, services: []service{svc("web", "10.96.0.1", false), svc("redis", "10.96.0.2", true)}}
}

// asked encodes a question.
func asked(tb testing.TB, a api, name, text string) []byte {
	tb.Helper()
	m, err := a.message(name, text)
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// What proxies are told, by the names of Linkerd's API.
func TestAnswers(t *testing.T) {
	t.Parallel()
	a, err := loadAPI(t.Context(), apiText)
	if err != nil {
		t.Fatal(err)
	}
	const web, redis, pod, nobody = `{"addr": {"ip": {"ipv4": 174063617}, "port": 80}}`, `{"addr": {"ip": {"ipv4": 174063618}, "port": 80}}`,
		`{"addr": {"ip": {"ipv4": 176161794}, "port": 8080}}`, `{"addr": {"ip": {"ipv4": 1}, "port": 1}}`
	var got bytes.Buffer
	for _, q := range []struct {
		what, method, in, text, out string
		policy                      Policy
		status                      int
	}{
		{"a service", methodWatch, "TrafficSpec", web, "OutboundPolicy", Unauthenticated, grpcOK},
		{"an opaque one", methodWatch, "TrafficSpec", redis, "OutboundPolicy", Unauthenticated, grpcOK},
		{"a pod", methodWatch, "TrafficSpec", pod, "OutboundPolicy", Unauthenticated, grpcNotFound},
		{"nobody", methodWatch, "TrafficSpec", nobody, "OutboundPolicy", Unauthenticated, grpcNotFound},
		{"a name", methodWatch, "TrafficSpec", `{"authority": "web.default.svc.cluster.local:80"}`, "OutboundPolicy", Unauthenticated, grpcOK},
		{"a service's profile", methodProfile, "GetDestination", `{"path": "10.96.0.1:80"}`, "DestinationProfile", Unauthenticated, grpcOK},
		{"an opaque one's profile", methodProfile, "GetDestination", `{"path": "10.96.0.2:80"}`, "DestinationProfile", Unauthenticated, grpcOK},
		{"a pod's profile", methodProfile, "GetDestination", `{"path": "10.128.4.3:8080"}`, "DestinationProfile", Unauthenticated, grpcOK},
		{"nobody's profile", methodProfile, "GetDestination", `{"path": "10.128.4.3:81"}`, "DestinationProfile", Unauthenticated, grpcOK},
		{"endpoints", methodGet, "GetDestination", `{"path": "web.default.svc.cluster.local:80"}`, "Update", Unauthenticated, grpcOK},
		{"nobody's endpoints", methodGet, "GetDestination", `{"path": "web.default.svc.cluster.local:81"}`, "Update", Unauthenticated, grpcOK},
		{"a port", methodPort, "PortSpec", `{"port": 8081}`, "Server", Unauthenticated, grpcOK},
		{"an opaque port, authenticated", methodPort, "PortSpec", `{"port": 8080}`, "Server", Authenticated, grpcOK},
		{"the admin port, authenticated", methodPort, "PortSpec", `{"port": 4191}`, "Server", Authenticated, grpcOK},
		{"another method", "/x", "PortSpec", "{}", "Server", Authenticated, grpcUnimplemented},
	} {
		answer, status := plane(t, q.policy).answer(q.method, asked(t, a, q.in, q.text))
		if status != q.status {
			t.Errorf("%s: status %d, want %d", q.what, status, q.status)
		}
		m, failure := a.message(q.out, "")
		if failure == nil {
			failure = proto.Unmarshal(answer, m)
		}
		if failure != nil {
			t.Fatalf("%s: %v", q.what, failure)
		}
		if len(m.GetUnknown()) > 0 {
			t.Errorf("%s: fields that the API does not have", q.what)
		}
		var compact bytes.Buffer // protojson spaces at random
		raw, failure := protojson.Marshal(m)
		if failure = errors.Join(failure, json.Indent(&compact, raw, "", " ")); failure != nil {
			t.Fatal(failure)
		}
		_, _ = fmt.Fprintf(&got, "%s: status %d\n%s\n", q.what, status, compact.Bytes())
	}
	golden := filepath.Join("testdata", "answers.txt")
	if *update {
		if err = os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A proxy gets a certificate of its own pod's identity, and of no other.
func TestCertify(t *testing.T) {
	t.Parallel()
	a, err := loadAPI(t.Context(), apiText)
	if err != nil {
		t.Fatal(err)
	}
	c := plane(t, Unauthenticated)
	ask := func(claimed, requested string) (*x509.Certificate, int) {
		files, err := credentials(requested)
		if err != nil {
			t.Fatal(err)
		}
		m, err := a.message("CertifyRequest", "")
		if err != nil {
			t.Fatal(err)
		}
		raw := message{}.text(1, claimed).raw(2, files["token"]).raw(3, files["csr.der"])
		if err = proto.Unmarshal(raw, m); err != nil || len(m.GetUnknown()) > 0 {
			t.Fatal(err)
		}
		answer, status := c.answer(methodCertify, raw)
		if status != grpcOK {
			return nil, status
		}
		response, err := a.message("CertifyResponse", "")
		if err != nil {
			t.Fatal(err)
		}
		if err = proto.Unmarshal(answer, response); err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(path(response, "leaf_certificate").Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if until := path(response, "valid_until", "seconds").Int(); until != cert.NotAfter.Unix() {
			t.Errorf("said to be good until %d, and is until %s", until, cert.NotAfter)
		}
		return cert, status
	}
	own, other := identity("server"), identity("client")
	cert, status := ask(own, own)
	if status != grpcOK {
		t.Fatalf("status %d", status)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.ca.PEM())
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: own}); err != nil {
		t.Error(err)
	}
	for _, forged := range [][2]string{{other, other}, {own, other}, {other, own}} {
		if _, status := ask(forged[0], forged[1]); status != grpcDenied {
			t.Errorf("%v: status %d, want %d", forged, status, grpcDenied)
		}
	}
	if _, status := c.answer(methodCertify, []byte("\x1a\x01x")); status != grpcInvalid {
		t.Errorf("no certificate request: status %d", status)
	}
}

func FuzzAnswer(f *testing.F) {
	c := plane(f, Authenticated)
	f.Add(uint8(0), []byte(message{}.text(2, "10.96.0.1:80")))
	f.Add(uint8(4), []byte(message{}.sub(2, message{}.sub(1, ip(netip.MustParseAddr("10.96.0.1"))).number(2, 80))))
	methods := []string{methodProfile, methodGet, methodPort, methodCertify, methodWatch}
	f.Fuzz(func(t *testing.T, method uint8, request []byte) {
		answer, status := c.answer(methods[int(method)%len(methods)], request)
		if _, err := parseFields(answer); err != nil || status != grpcOK && len(answer) > 0 {
			t.Errorf("status %d with %x: %v", status, answer, err)
		}
	})
}

func TestReadMessage(t *testing.T) {
	t.Parallel()
	good := frame(message{}.text(1, "x"))
	if got, err := readMessage(bytes.NewReader(good)); err != nil || !bytes.Equal(got, good[prefixBytes:]) {
		t.Errorf("%x, %v", got, err)
	}
	for _, bad := range [][]byte{nil, good[:4], good[:6], append([]byte{1}, good[1:]...), append(good, 0), make([]byte, maxRequest+1)} {
		if _, err := readMessage(bytes.NewReader(bad)); err == nil {
			t.Errorf("%d bytes were read: %.20x", len(bad), bad)
		}
	}
}

// The text is of the form that linkerd2-proxy's metrics have.
func TestParseMetrics(t *testing.T) {
	t.Parallel()
	c, err := parseMetrics([]byte(`# HELP request_total Total count of HTTP requests.
# TYPE request_total counter
request_total{direction="inbound",target_addr="10.42.0.217:8080",tls="true",client_id="client.default.serviceaccount.identity.linkerd.cluster.local"} 20
request_total{direction="inbound",target_addr="10.42.0.217:8080",tls="no_identity",no_tls_reason="no_tls_from_remote"} 3
request_total{direction="inbound",target_addr="0.0.0.0:4191",tls="no_identity"} 7
request_total{direction="outbound",authority="web.default.svc.cluster.local:80",tls="true"} 5
# TYPE tcp_open_total counter
tcp_open_total{direction="outbound",peer="src",target_addr="10.96.0.2:6379"} 2
tcp_open_total{direction="outbound",peer="dst",target_addr="10.42.0.3:6379"} 4
# TYPE proxy_build_info gauge
proxy_build_info{version="v2.337.0",vendor="linkerd"} 1
# HELP rt_workers a format of another library
# TYPE rt_workers unknown
# UNIT rt_workers threads
rt_workers 1
# EOF
`))
	want := counters{
		version: "v2.337.0", requests: map[string]float64{"inbound": 23, "outbound": 5}, connections: map[string]float64{"outbound": 2},
		plain: 3, peers: []string{identity("client")},
	}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(counters{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := parseMetrics([]byte("request_total{direction")); err == nil {
		t.Error("half a line was read")
	}
}

func FuzzParseMetrics(f *testing.F) {
	f.Add([]byte("request_total{direction=\"inbound\",tls=\"true\",client_id=\"x\"} 20\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if c, err := parseMetrics(raw); err == nil && len(c.peers) > 0 && c.requests["inbound"]+c.connections["inbound"] == 0 {
			t.Errorf("%q: peers of nothing: %+v", raw, c)
		}
	})
}

// image puts this test binary, which stands in for linkerd2-proxy, into an image
// of a registry in this process.
func image(t *testing.T) (ref string, cache func() (oci.Cache, error)) {
	t.Helper()
	labtest.Need(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err = w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(usualImagePath, "/"), Mode: 0o755, Size: int64(len(binary))})
	if err == nil {
		_, err = w.Write(binary)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	ref = strings.TrimPrefix(server.URL, "http://") + "/linkerd/proxy:stand-in"
	tag, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err = remote.Write(tag, img); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return ref, func() (oci.Cache, error) { return oci.Cache{Dir: dir}, nil }
}

func layer(t *testing.T, cache func() (oci.Cache, error), raw string) model.Layer {
	t.Helper()
	l, err := Plugin(cache).New(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The whole layer, with a program out of an image: pulled, unpacked and started
// as the vendor's would be.
func TestOutOfAnImage(t *testing.T) {
	t.Parallel()
	ref, cache := image(t)
	t.Run("conformance", func(t *testing.T) {
		t.Parallel()
		labtest.Layer(t, labtest.LayerSuite{
			New:       func(t *testing.T) model.Layer { t.Helper(); return layer(t, cache, fmt.Sprintf(`{"image": %q}`, ref)) },
			Elsewhere: []string{model.FactWireProtocol},
		})
	})
	for policy, open := range map[Policy]bool{Unauthenticated: true, Authenticated: false} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			comesIn(t, layer(t, cache, fmt.Sprintf(`{"image": %q, "policy": %q}`, ref, policy)), open)
		})
	}
}

// comesIn checks who may come in: with all-authenticated nobody without a
// certificate.
func comesIn(t *testing.T, l model.Layer, open bool) {
	t.Helper()
	site := labtest.TwoNodes(t)
	labtest.StartServers(t, site)
	labtest.Deploy(t, site, l)
	svc, err := site.Service("server")
	if err != nil {
		t.Fatal(err)
	}
	vip := netip.AddrPortFrom(svc.VIP, svc.Port)
	labtest.Eventually(t, func() error { _, err := labtest.Ask(t, site, "client-0", vip, "server"); return err })
	facts := labtest.Observed(t, site, l, model.FactWireProtocol)
	if !strings.Contains(facts[model.FactImage], "/linkerd/proxy@sha256:") || facts[model.FactDigest] == "" {
		t.Errorf("the ledger has %q, %q", facts[model.FactImage], facts[model.FactDigest])
	}
	if facts[model.FactMTLS] != tls13 || facts[model.FactPeer] != identity("client") {
		t.Errorf("mTLS %q with %q", facts[model.FactMTLS], facts[model.FactPeer])
	}
	past := netip.AddrPortFrom(labtest.Pod(t, site, "server-0").Addr(), svc.TargetPort)
	try := func() error { _, err := labtest.Ask(t, site, "client-0", past, "server"); return err }
	if open {
		labtest.Eventually(t, try)
	} else if try() == nil {
		t.Error("plaintext past the client's sidecar was let in")
	}
}

// The vendor's own program, where there is one.
func TestRealProxy(t *testing.T) {
	t.Parallel()
	if _, err := find(""); err != nil && sys.Required(Name) {
		t.Fatalf("$WINDTUNNEL_REQUIRE says that there must be a linkerd2-proxy: %v", err)
	} else if err != nil {
		t.Skip(err)
	}
	labtest.Layer(t, labtest.LayerSuite{
		New:       func(t *testing.T) model.Layer { t.Helper(); return layer(t, noCache, "") },
		Elsewhere: []string{model.FactWireProtocol},
	})
}
