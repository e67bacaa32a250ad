package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	names "github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// get asks a server on a pod's own loopback.
func (p *pod) get(ctx context.Context, url string) ([]byte, error) {
	log := sys.NewTail(sys.LogLimit)
	r, err := p.exec(ctx, log, program, "pod", "get", url)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.out)
	err = errors.Join(err, r.Stop(ctx))
	if err != nil || len(body) == 0 {
		return nil, &model.TargetError{What: "asking " + url + " in pod " + p.object, Why: strings.TrimSpace(fmt.Sprint(log.Line(), " ", err))}
	}
	return body, nil
}

// Counted is what the pods' proxies count; see model.MeshSite.
func (s *site) Counted(ctx context.Context, m model.Mesh) (model.Ledger, error) {
	if m.Counters == nil {
		return model.Ledger{{Layer: m.Name, Key: model.FactProxies, Value: "not counted: no proxy in the pods that tells", Source: model.SourceDeclared}}, nil
	}
	var mu sync.Mutex
	sum := tally{peers: map[string]bool{}}
	err := s.each(func(p *pod) error {
		raw, err := p.get(ctx, m.Counters.URL)
		if err != nil {
			return err
		}
		one, err := count(raw, *m.Counters, p.role == model.RoleClient)
		if err != nil {
			return fmt.Errorf("reading the counters of the proxy in pod %s: %w", p.object, err)
		}
		mu.Lock()
		defer mu.Unlock()
		sum.add(one)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sum.facts(m), nil
}

// tally is what proxies have counted.
type tally struct {
	client, server float64 // requests or connections
	secure         float64 // of those at the server
	peers          map[string]bool
}

func (t *tally) add(o tally) {
	t.client, t.server, t.secure = t.client+o.client, t.server+o.server, t.secure+o.secure
	maps.Copy(t.peers, o.peers)
}

// count reads a proxy's counters.
func count(raw []byte, c model.Counters, client bool) (tally, error) {
	t := tally{peers: map[string]bool{}}
	if !utf8.Valid(raw) {
		return t, errors.New("they are no UTF-8")
	}
	parser := expfmt.NewTextParser(names.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(raw))
	if err != nil {
		return t, fmt.Errorf("reading Prometheus's text format: %w", err)
	}
	if c.Else != nil && !slices.ContainsFunc(c.Metrics, func(name string) bool { return families[name] != nil }) {
		c = *c.Else
	}
	t.tell(families, c, client)
	return t, nil
}

// tell adds what metrics count.
func (t *tally) tell(families map[string]*dto.MetricFamily, c model.Counters, client bool) {
	where := c.Server
	if client {
		where = c.Client
	}
	for _, name := range c.Metrics {
		for _, metric := range families[name].GetMetric() {
			labels := labelsOf(metric)
			if !all(where, labels) || len(c.Except) > 0 && all(c.Except, labels) {
				continue
			}
			t.note(value(metric), labels, c, client)
		}
	}
	if client || c.Handshakes == "" {
		return
	}
	for name, sign := range map[string]float64{c.Handshakes: 1, c.Anonymous: -1} {
		for _, metric := range families[name].GetMetric() {
			if all(where, labelsOf(metric)) {
				t.secure += sign * value(metric)
			}
		}
	}
}

// note adds one counter.
func (t *tally) note(n float64, labels map[string]string, c model.Counters, client bool) {
	if client {
		t.client += n
		return
	}
	t.server += n
	if c.Secure[0] != "" && labels[c.Secure[0]] == c.Secure[1] {
		t.secure += n
	}
	if peer := labels[c.Peer]; c.Peer != "" && peer != "" && n > 0 {
		t.peers[peer] = true
	}
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

func value(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetUntyped().GetValue() + m.GetGauge().GetValue()
}

// all says whether labels have all that are wanted.
func all(want, labels map[string]string) bool {
	for k, v := range want {
		begin, open := strings.CutSuffix(v, "*")
		if labels[k] != v && (!open || !strings.HasPrefix(labels[k], begin)) {
			return false
		}
	}
	return true
}

// facts are what the counts show.
func (t tally) facts(m model.Mesh) model.Ledger {
	var l model.Ledger
	add := func(key, value string) {
		l = append(l, model.Fact{Layer: m.Name, Key: key, Value: value, Source: model.SourceCounters})
	}
	inPath := 0
	for _, n := range []float64{t.client, t.server} {
		if n > 0 {
			inPath++
		}
	}
	add(model.FactProxies, strconv.Itoa(inPath))
	switch {
	case t.server == 0:
	case t.secure == t.server:
		add(model.FactMTLS, "mutual TLS")
	case t.secure == 0:
		add(model.FactMTLS, "none")
	default:
		add(model.FactMTLS, fmt.Sprintf("mutual TLS for %.0f of %.0f", t.secure, t.server))
	}
	for _, peer := range slices.Sorted(maps.Keys(t.peers)) {
		add("client as the server's proxy knows it", peer)
	}
	return l
}

// Dump is the mesh's live configuration; see model.MeshSite.
func (s *site) Dump(ctx context.Context, m model.Mesh) (map[string][]byte, error) {
	files := map[string][]byte{}
	var mu sync.Mutex
	err := s.each(func(p *pod) error {
		for name, url := range m.Dumps {
			raw, err := p.get(ctx, url)
			if err != nil {
				return err
			}
			mu.Lock()
			files[p.name+"."+name] = raw
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range s.used() {
		for _, name := range m.Configs {
			text, err := c.configMap(ctx, m.Namespace, name)
			if err != nil {
				return nil, err
			}
			files["context-"+c.context+"."+name+".txt"] = text
		}
	}
	return files, nil
}

// configMap is what a ConfigMap holds, or why that cannot be told.
func (c *cluster) configMap(ctx context.Context, namespace, name string) ([]byte, error) {
	o, err := c.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return []byte("not read: " + err.Error() + "\n"), nil
	case err != nil:
		return nil, c.explain("reading the ConfigMap "+name+" of namespace "+namespace, err)
	}
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(o.Data)) {
		fmt.Fprintf(&b, "--- %s\n%s\n", key, strings.TrimRight(o.Data[key], "\n"))
	}
	return b.Bytes(), nil
}
