package haproxy

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// What sidecars do with a service's traffic.
const (
	levelHTTP = "L7, HTTP"
	levelTCP  = "L4, TCP"
	tls13     = "TLSv1.3"
)

// factChecks is the key of the fact that says how endpoints are checked.
const factChecks = "health checks"

// Claims are what Observe, the wire and the app's answers must show.
func (l *Layer) Claims() []model.Claim {
	level, proxies := levelTCP, "1"
	if slices.ContainsFunc(l.services, func(s service) bool { return s.http }) {
		level = levelHTTP
	}
	if l.config.Sidecars == AtBoth {
		proxies = "2"
	}
	claim := func(key, value string) model.Claim { return model.Claim{Layer: Name, Key: key, Value: value} }
	claims := []model.Claim{claim(model.FactLevel, level), claim(model.FactProxies, proxies)}
	if l.config.MTLS != Strict {
		return append(claims, claim(model.FactMTLS, "none"))
	}
	claims = append(claims, claim(model.FactMTLS, tls13))
	if level == levelHTTP { // at L4 nobody tells the app
		claims = append(claims, claim(model.FactPeer, identity(model.RoleClient)))
	}
	if l.flat.OnWire {
		claims = append(claims, claim(model.FactWireProtocol, tls13))
	}
	return claims
}

// Observe reads every sidecar's own counters.
func (l *Layer) Observe(ctx context.Context, _ model.Site) (model.Ledger, error) {
	ledger := l.program.Facts(Name)
	add := func(key, value, source string) {
		ledger.Note(model.Fact{Layer: Name, Key: key, Value: value, Source: source})
	}
	var sum counters
	for _, sc := range l.sidecars {
		if err := sc.await(ctx, nil); err != nil {
			return nil, fmt.Errorf("the HAProxy in %s: %w", sc.Pod.Name(), err)
		}
		st, err := sc.read(ctx)
		if err != nil {
			return nil, fmt.Errorf("the HAProxy in %s: %w", sc.Pod.Name(), err)
		}
		sum.add(st)
		add(model.FactProgram, "HAProxy "+st.version, model.SourceConfig)
	}
	proxies := 0
	for _, used := range []bool{sum.out > 0, sum.in > 0} {
		if used {
			proxies++
		}
	}
	if sum.requests > 0 {
		add(model.FactLevel, levelHTTP, model.SourceCounters)
	}
	if sum.connections > 0 {
		add(model.FactLevel, levelTCP, model.SourceCounters)
	}
	add(model.FactProxies, strconv.Itoa(proxies), model.SourceCounters)
	switch {
	case sum.secure > 0: // nothing older is spoken
		add(model.FactMTLS, tls13, model.SourceCounters)
	case proxies > 0:
		add(model.FactMTLS, "none", model.SourceCounters)
	}
	add("sidecar worker threads", strconv.Itoa(l.config.Concurrency), model.SourceConfig)
	if l.config.outbound() {
		add(model.FactRetries, fmt.Sprintf("up to %d; %d done", l.config.Retries, sum.retries), model.SourceCounters)
		add(model.FactBalancing, "HAProxy, "+string(l.config.LoadBalancing), model.SourceConfig)
		add(factChecks, l.config.Health.describe(), model.SourceConfig)
		add("endpoints that passed their health checks", fmt.Sprintf("%d of %d", sum.up, sum.checked), model.SourceCounters)
	}
	return ledger, nil
}

func (h Health) describe() string {
	how := "a TCP connection"
	if h.Path != "" {
		how = "GET " + h.Path
	}
	return fmt.Sprintf("%s every %s, %d failures in a row take out, %d successes bring back", how, h.Interval, h.Fall, h.Rise)
}

// counters are what matters of what a sidecar says of itself.
type counters struct {
	version               string
	requests, connections uint64 // of services: at L7, at L4
	out, in               uint64 // of those, by which side
	retries, secure       uint64 // secure: TLS connections, both as server and as client
	up, checked           int    // endpoints
}

func (c *counters) add(o counters) {
	c.requests, c.connections, c.out, c.in = c.requests+o.requests, c.connections+o.connections, c.out+o.out, c.in+o.in
	c.retries, c.secure, c.up, c.checked = c.retries+o.retries, c.secure+o.secure, c.up+o.up, c.checked+o.checked
}

func (sc *sidecar) read(ctx context.Context) (counters, error) {
	raw, err := sc.ask(ctx, "show stat")
	if err != nil {
		return counters{}, err
	}
	c, err := parseStat(raw)
	if err != nil {
		return c, err
	}
	info, err := sc.ask(ctx, "show info")
	if err != nil {
		return c, err
	}
	c.version = field(info, "Version")
	secure := field(info, "CumSslConns")
	if secure == "" {
		return c, nil // built without TLS
	}
	if c.secure, err = strconv.ParseUint(secure, 10, 64); err != nil {
		return c, fmt.Errorf("reading its number of TLS connections: %w", err)
	}
	return c, nil
}

// field is the value of a line "name: value" of "show info".
func field(info []byte, name string) string {
	for line := range bytes.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(string(line)), ": "); ok && key == name {
			return value
		}
	}
	return ""
}

// parseStat reads the table of "show stat".
func parseStat(raw []byte) (c counters, err error) {
	err = eachRow(raw, c.count)
	return c, err
}

// eachRow visits the rows of the table of "show stat".
func eachRow(raw []byte, visit func(get func(column string) string)) error {
	r := csv.NewReader(bytes.NewReader(raw))
	r.FieldsPerRecord = -1
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("reading its counters: %w", err)
	}
	column := map[string]int{}
	for i, name := range head {
		column[strings.TrimPrefix(name, "# ")] = i
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading its counters: %w", err)
		}
		visit(func(name string) string {
			if i, known := column[name]; known && i < len(row) {
				return row[i]
			}
			return ""
		})
	}
}

// count adds a row of the table: of a frontend, a backend or a server.
func (c *counters) count(get func(column string) string) {
	number := func(column string) uint64 {
		n, err := strconv.ParseUint(get(column), 10, 64)
		if err != nil {
			return 0 // an empty cell: there is none
		}
		return n
	}
	side := &c.in
	name := get("pxname")
	switch {
	case strings.HasPrefix(name, outbound):
		side = &c.out
	case !strings.HasPrefix(name, inbound):
		return // HAProxy's own
	}
	switch get("svname") {
	case "FRONTEND":
		n := number("req_tot")
		if get("mode") == "http" {
			c.requests += n
		} else {
			n = number("stot")
			c.connections += n
		}
		*side += n
	case "BACKEND":
		c.retries += number("wretr")
	default:
		if side == &c.out && !strings.HasSuffix(name, overH2) { // those track the others
			c.checked++
			if strings.HasPrefix(get("status"), "UP") {
				c.up++
			}
		}
	}
}

// maxAnswer bounds an answer to a question.
const maxAnswer = 8 << 20

// ask asks the sidecar on its port for questions, from inside its pod.
func (sc *sidecar) ask(ctx context.Context, question string) (answer []byte, err error) {
	const patience = 5 * time.Second
	err = sc.Where.InNetwork(func() error {
		d := net.Dialer{Timeout: time.Second}
		conn, dialErr := d.DialContext(ctx, "tcp4", "127.0.0.1:"+strconv.Itoa(portAdmin))
		if dialErr != nil {
			return dialErr
		}
		defer conn.Close() //nolint:errcheck // only read
		if err = conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err = io.WriteString(conn, question+"\n"); err != nil {
			return err
		}
		answer, err = io.ReadAll(io.LimitReader(conn, maxAnswer))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking it to %q: %w", question, err)
	}
	return answer, nil
}

// Drain takes pods out of every client's sidecar, as HAProxy's state "drain"
// does: what is there stays, nothing new goes there.
func (l fronting) Drain(ctx context.Context, _ model.Site, pods []string) (endpoints int, undrain func(context.Context) error, err error) {
	if len(pods) == 0 {
		return 0, func(context.Context) error { return nil }, nil
	}
	set := func(ctx context.Context, state string) error {
		return l.each(func(sc *sidecar) error { return l.set(ctx, sc, pods, "state "+state) })
	}
	for _, svc := range l.services {
		for _, p := range svc.Pods {
			if slices.Contains(pods, p) {
				endpoints++
			}
		}
	}
	undrain = func(ctx context.Context) error { return set(ctx, "ready") }
	if err := set(ctx, "drain"); err != nil {
		return 0, nil, errors.Join(err, undrain(context.WithoutCancel(ctx)))
	}
	return endpoints, undrain, nil
}

// set changes endpoints of a sidecar: those of the pods, or all if there are
// none. Those for HTTP/2 track them. HAProxy answers an empty line.
func (l *Layer) set(ctx context.Context, sc *sidecar, pods []string, what string) error {
	if err := sc.await(ctx, nil); err != nil {
		return err
	}
	for _, svc := range l.services {
		for _, p := range svc.Pods {
			if len(pods) > 0 && !slices.Contains(pods, p) {
				continue
			}
			answer, err := sc.ask(ctx, fmt.Sprintf("set server %s%s/%s %s", outbound, svc.Name, p, what))
			if err == nil && len(bytes.TrimSpace(answer)) > 0 {
				err = fmt.Errorf("it refuses: %s", bytes.TrimSpace(answer))
			}
			if err != nil {
				return fmt.Errorf("the endpoint %s of %s: %w", p, svc.Name, err)
			}
		}
	}
	return nil
}

// Artefacts are the configurations, and the tables of counters.
func (l *Layer) Artefacts(ctx context.Context, _ model.Site) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, sc := range l.sidecars {
		stat, err := sc.ask(ctx, "show stat")
		if err != nil {
			return nil, fmt.Errorf("the HAProxy in %s: %w", sc.Pod.Name(), err)
		}
		files[sc.Pod.Name()+"."+configFile] = []byte(l.file(sc))
		files[sc.Pod.Name()+".stat.csv"] = stat
	}
	return files, nil
}
