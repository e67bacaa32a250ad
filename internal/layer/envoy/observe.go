package envoy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// maxAdmin bounds an answer of Envoy's admin interface.
const maxAdmin = 8 << 20

// admin asks the sidecar's admin interface, from inside the pod.
func (sc *sidecar) admin(ctx context.Context, path string) (body []byte, err error) {
	err = sc.ns.InNetwork(func() error {
		// The connection is made on this thread: a http.Client would make it
		// on another, outside the pod.
		dialer := net.Dialer{Timeout: time.Second}
		conn, dialErr := dialer.DialContext(ctx, "tcp4", "127.0.0.1:"+strconv.Itoa(portAdmin))
		if dialErr != nil {
			return dialErr
		}
		defer conn.Close() //nolint:errcheck // only read
		body, err = ask(conn, path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking the Envoy in %s for %s: %w", sc.pod.Name(), path, err)
	}
	return body, nil
}

// ask sends one request and reads the whole answer.
func ask(conn net.Conn, path string) ([]byte, error) {
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n", path); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAdmin))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return body, err
}

// Claims are what Observe, the wire and the app's answers must show.
func (l *Layer) Claims() []model.Claim {
	claims := []model.Claim{{Layer: Name, Key: model.FactLevel, Value: "L7, HTTP/1.1"}, {Layer: Name, Key: model.FactProxies, Value: "2"}}
	if l.config.MTLS == Disabled {
		return append(claims, model.Claim{Layer: Name, Key: model.FactMTLS, Value: "none"})
	}
	claims = append(claims,
		model.Claim{Layer: Name, Key: model.FactMTLS, Value: "TLSv1.3"},
		model.Claim{Layer: Name, Key: model.FactPeer, Value: identity("client")})
	if l.onWire {
		claims = append(claims, model.Claim{Layer: Name, Key: model.FactWireProtocol, Value: "TLSv1.3"})
	}
	return claims
}

// Observe reads every sidecar's counters and live configuration.
func (l *Layer) Observe(ctx context.Context, _ model.Site) (model.Ledger, error) {
	var ledger model.Ledger
	add := func(key, value, source string) {
		f := model.Fact{Layer: Name, Key: key, Value: value, Source: source}
		if !slices.Contains(ledger, f) {
			ledger = append(ledger, f)
		}
	}
	inPath, retried := map[string]bool{}, uint64(0)
	for _, sc := range l.sidecars {
		raw, err := sc.admin(ctx, "/stats")
		if err != nil {
			return nil, err
		}
		st := parseStats(raw)
		if st.requests > 0 {
			inPath[sc.role] = true
			add(model.FactLevel, "L7, HTTP/1.1", model.SourceCounters)
		}
		retried += st.retries
		for _, v := range st.tlsVersions {
			add(model.FactMTLS, v, model.SourceCounters)
		}
		for _, v := range st.ciphers {
			add("TLS cipher", v, model.SourceCounters)
		}
		info, err := sc.version(ctx)
		if err != nil {
			return nil, err
		}
		add(model.FactProgram, "Envoy "+info+", configured as Istio does", model.SourceConfig)
	}
	add(model.FactProxies, strconv.Itoa(len(inPath)), model.SourceCounters)
	add(model.FactRetries, fmt.Sprintf("up to 2; %d done", retried), model.SourceCounters)
	add("sidecar worker threads", strconv.Itoa(l.config.Concurrency), model.SourceConfig)
	if l.config.MTLS == Disabled && len(inPath) > 0 && !tlsSeen(ledger) {
		add(model.FactMTLS, "none", model.SourceCounters)
	}
	return ledger, nil
}

func tlsSeen(l model.Ledger) bool {
	for _, f := range l {
		if f.Key == model.FactMTLS {
			return true
		}
	}
	return false
}

func (sc *sidecar) version(ctx context.Context) (string, error) {
	raw, err := sc.admin(ctx, "/server_info")
	if err != nil {
		return "", err
	}
	var info struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(raw, &info); err != nil {
		return "", fmt.Errorf("reading Envoy's version: %w", err)
	}
	// commit/version/state/type/TLS library
	parts := strings.Split(info.Version, "/")
	if len(parts) < 2 {
		return info.Version, nil
	}
	return parts[1] + " (" + parts[0][:min(12, len(parts[0]))] + ")", nil
}

// stats is what matters of a sidecar's counters.
type stats struct {
	requests, retries    uint64
	tlsVersions, ciphers []string
}

// parseStats reads Envoy's "name: value" lines.
func parseStats(raw []byte) stats {
	var s stats
	for line := range bytes.Lines(raw) {
		name, value, ok := strings.Cut(strings.TrimSpace(string(line)), ": ")
		n, err := strconv.ParseUint(value, 10, 64)
		if !ok || err != nil || n == 0 {
			continue
		}
		switch {
		case strings.HasPrefix(name, "http.inbound_") && strings.HasSuffix(name, ".downstream_rq_total"),
			strings.HasPrefix(name, "http.outbound_") && strings.HasSuffix(name, ".downstream_rq_total"):
			s.requests += n
		case strings.HasPrefix(name, "cluster.outbound") && strings.HasSuffix(name, ".upstream_rq_retry"):
			s.retries += n
		}
		if _, v, ok := strings.Cut(name, ".ssl.versions."); ok {
			s.tlsVersions = append(s.tlsVersions, v)
		}
		if _, v, ok := strings.Cut(name, ".ssl.ciphers."); ok {
			s.ciphers = append(s.ciphers, v)
		}
	}
	return s
}

// Artefacts are the live configurations. Envoy itself leaves private keys out;
// that none is in them is checked all the same.
func (l *Layer) Artefacts(ctx context.Context, _ model.Site) (map[string][]byte, error) {
	files := map[string][]byte{}
	secret := regexp.MustCompile(`PRIVATE KEY`)
	for _, sc := range l.sidecars {
		dump, err := sc.admin(ctx, "/config_dump")
		if err != nil {
			return nil, err
		}
		if secret.Match(dump) {
			return nil, errors.New("Envoy's live configuration holds a private key; it is not kept") //nolint:staticcheck // a name
		}
		files[sc.pod.Name()+".config_dump.json"] = dump
	}
	return files, nil
}
