package envoy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

var (
	_ model.Router  = (*Layer)(nil)
	_ model.Rotator = (*Layer)(nil)
	_ model.Meter   = (*Layer)(nil)
)

// live is what lets sidecars be changed while they run: their listeners,
// clusters and certificates come, as from a control plane, over xDS, from files.
// It is off unless Routable was called.
type live struct {
	on      bool
	version int
	rules   model.Rules
	door    *proxy.Envoy // the ingress, where the rules have one
}

// The files of xDS.
const (
	fileListeners = "lds.json"
	fileClusters  = "cds.json"
	fileSecret    = "sds.json"
	secretName    = "default" // as Istio names a workload's certificate
)

// Routable makes the next Deploy take listeners, clusters and certificates from
// files that can be replaced.
func (l *Layer) Routable() { l.live.on = true }

// changeable is how a sidecar is run: from files that can be replaced, if need be.
func (l *Layer) changeable(s proxy.Spec) (proxy.Spec, error) {
	if !l.live.on {
		return s, nil
	}
	var err error
	s.Files, err = l.live.split(s.Files)
	s.Args = append(s.Args, proxy.FlushSpans()...) // so that access logs can be read at once
	// Connections keep the filters with which they began. So that new ones hold
	// soon, an answer on an old connection is its last: Envoy's usual way is to
	// close them little by little over 10 minutes, and Istio's over 45 s.
	s.Args = append(s.Args, "--drain-strategy", "immediate", "--drain-time-s", "5")
	return s, err
}

// split takes listeners, clusters and the certificate out of a static
// configuration and into files of their own.
func (v *live) split(files map[string][]byte) (map[string][]byte, error) {
	var config object
	if err := json.Unmarshal(files["envoy.json"], &config); err != nil {
		return nil, fmt.Errorf("reading the sidecar's configuration: %w", err)
	}
	static, _ := config["static_resources"].(object)
	listeners, _ := static["listeners"].(list)
	clusters, _ := static["clusters"].(list)
	delete(config, "static_resources")
	withSecrets(listeners)
	withSecrets(clusters)
	from := func(name string) object {
		return object{"resource_api_version": "V3", "path_config_source": object{"path": "{dir}/" + name}}
	}
	config["dynamic_resources"] = object{"lds_config": from(fileListeners), "cds_config": from(fileClusters)}
	for name, value := range map[string]object{
		"envoy.json":  config,
		fileListeners: v.discovered("envoy.config.listener.v3.Listener", listeners),
		fileClusters:  v.discovered("envoy.config.cluster.v3.Cluster", clusters),
		fileSecret:    v.discovered("envoy.extensions.transport_sockets.tls.v3.Secret", list{secret("cert.pem", "key.pem")}),
	} {
		text, err := proxy.Encode(value)
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	return files, nil
}

// discovered is a file of xDS.
func (v *live) discovered(kind string, resources list) object {
	for _, r := range resources {
		if o, ok := r.(object); ok {
			proxy.Typed(kind, o)
		}
	}
	return object{"version_info": strconv.Itoa(v.version), "resources": resources}
}

func secret(cert, key string) object {
	return object{"name": secretName, "tls_certificate": object{"certificate_chain": file(cert), "private_key": file(key)}}
}

// withSecrets has every TLS context take its certificate from the file of
// secrets, instead of for good from one of its own.
func withSecrets(config any) {
	switch v := config.(type) {
	case object:
		if _, ok := v["tls_certificates"]; ok {
			delete(v, "tls_certificates")
			v["tls_certificate_sds_secret_configs"] = list{object{"name": secretName, "sds_config": object{
				"resource_api_version": "V3", "path_config_source": object{"path": "{dir}/" + fileSecret},
			}}}
		}
		for _, inner := range v {
			withSecrets(inner)
		}
	case list:
		for _, inner := range v {
			withSecrets(inner)
		}
	}
}

// Apply gives all sidecars the rules, and starts an ingress if there is to be one.
func (l *Layer) Apply(ctx context.Context, s model.Site, r model.Rules) (func(context.Context) error, error) {
	if err := l.takes(r); err != nil {
		return nil, err
	}
	undo := func(ctx context.Context) error {
		l.live.rules = model.Rules{}
		return errors.Join(l.closeDoor(ctx), l.push(ctx, fileListeners, fileClusters))
	}
	l.live.rules = r
	err := l.push(ctx, fileClusters, fileListeners) // clusters before what sends to them
	if err == nil && r.Ingress != nil {
		err = l.openDoor(ctx, s, *r.Ingress)
	}
	if err != nil {
		return nil, errors.Join(err, undo(context.WithoutCancel(ctx)))
	}
	return undo, nil
}

// takes says whether the sidecars can follow such rules.
func (l *Layer) takes(r model.Rules) error {
	what := "following rules"
	if !l.live.on || l.mesh == nil {
		return &model.UnsupportedError{What: what, Missing: "the sidecars' configuration is static"}
	}
	s, err := l.mesh.service(r.Service)
	if err != nil {
		return err
	}
	if len(l.config.Ingress) > 0 {
		return &model.UnsupportedError{What: what, Missing: "clients have no sidecars to follow them, and the ingress takes none"}
	}
	l7 := len(r.Routes) > 0 || len(r.Allow)+len(r.Deny) > 0 || r.Ingress != nil || r.Log || r.Spans.IsValid()
	if l7 && !s.http {
		return &model.UnsupportedError{What: what, Missing: "the sidecars proxy " + s.Name + " at L4, and do not see its requests"}
	}
	return nil
}

func (m *mesh) service(name string) (service, error) {
	for _, s := range m.services {
		if s.Name == name {
			return s, nil
		}
	}
	return service{}, fmt.Errorf("the mesh has no service %q", name)
}

// push replaces the files of all sidecars, in that order, and waits for each
// file until it is followed.
func (l *Layer) push(ctx context.Context, order ...string) error {
	l.live.version++
	return l.each(func(sc *sidecar) error {
		files, err := l.ruled(sc)
		if err != nil {
			return err
		}
		for _, name := range order {
			if err := sc.Replace(name, files[name]); err != nil {
				return err
			}
			if err := sc.Until(ctx, "/stats?filter=(version_text|update_rejected|warming)", followed(name, l.live.version)); err != nil {
				return err
			}
		}
		return nil
	})
}

// followed says of Envoy's statistics whether a file's version is the live one.
func followed(name string, version int) func(stats []byte) (bool, error) {
	manager, warming := "listener_manager.lds", "listener_manager.total_listeners_warming"
	if name == fileClusters {
		manager, warming = "cluster_manager.cds", "cluster_manager.warming_clusters"
	}
	want := []byte(manager + `.version_text: "` + strconv.Itoa(version) + `"`)
	return func(stats []byte) (bool, error) {
		for counter := range proxy.Counters(stats) {
			switch counter {
			case manager + ".update_rejected":
				return false, errors.New("it has refused a file of ours (its log is in the run folder)")
			case warming:
				return false, nil
			}
		}
		return bytes.Contains(stats, want), nil
	}
}

// ruled are a sidecar's files under the rules.
func (l *Layer) ruled(sc *sidecar) (map[string][]byte, error) {
	static, err := l.mesh.bootstrap(sc)
	if err != nil {
		return nil, err
	}
	var config object
	if err = json.Unmarshal(static, &config); err != nil {
		return nil, fmt.Errorf("reading the sidecar's configuration: %w", err)
	}
	if err = l.mesh.follow(config, l.live.rules); err != nil {
		return nil, err
	}
	text, err := proxy.Encode(config)
	if err != nil {
		return nil, err
	}
	return l.live.split(map[string][]byte{"envoy.json": text})
}

// Rotate gives every sidecar a new key and certificate, of the same identity, and
// waits until none uses the old one.
func (l *Layer) Rotate(ctx context.Context, _ model.Site) error {
	if !l.live.on || l.mesh == nil || l.config.MTLS == Disabled {
		return &model.UnsupportedError{What: "rotating certificates", Missing: "the sidecars have none that can be replaced"}
	}
	l.live.version++
	return l.each(func(sc *sidecar) error {
		old, err := sc.serials(ctx)
		if err != nil {
			return err
		}
		cert, key, err := l.mesh.leaf(sc.role)
		if err != nil {
			return err
		}
		suffix := "-" + strconv.Itoa(l.live.version) + ".pem"
		text, err := proxy.Encode(l.live.discovered("envoy.extensions.transport_sockets.tls.v3.Secret", list{secret("cert"+suffix, "key"+suffix)}))
		if err != nil {
			return err
		}
		err = errors.Join(sc.Replace("cert"+suffix, cert), sc.Replace("key"+suffix, key))
		if err == nil {
			err = sc.Replace(fileSecret, text)
		}
		if err != nil {
			return err
		}
		return sc.Until(ctx, "/certs", func(body []byte) (bool, error) {
			now, err := parseSerials(body)
			for _, serial := range now {
				if old[serial] {
					return false, err
				}
			}
			return len(now) > 0, err
		})
	})
}

// serials are the numbers of the certificates that a sidecar uses.
func (sc *sidecar) serials(ctx context.Context) (map[string]bool, error) {
	raw, err := sc.Ask(ctx, "/certs")
	if err != nil {
		return nil, err
	}
	all, err := parseSerials(raw)
	old := map[string]bool{}
	for _, s := range all {
		old[s] = true
	}
	return old, err
}

func parseSerials(raw []byte) ([]string, error) {
	var all struct {
		Certificates []struct {
			Chain []struct {
				Serial string `json:"serial_number"`
			} `json:"cert_chain"`
		} `json:"certificates"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("reading Envoy's certificates: %w", err)
	}
	var serials []string
	for _, c := range all.Certificates {
		for _, one := range c.Chain {
			serials = append(serials, one.Serial)
		}
	}
	return serials, nil
}

// Requests are those that clients' sidecars have counted.
func (l *Layer) Requests(ctx context.Context, _ model.Site, name string) (map[int]uint64, error) {
	var mu sync.Mutex
	all := map[int]uint64{}
	err := l.each(func(sc *sidecar) error {
		raw, err := sc.Ask(ctx, "/stats")
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for counter, n := range proxy.Counters(raw) {
			class, ok := strings.CutPrefix(counter, "http.outbound_"+name+".downstream_rq_")
			switch {
			case ok && len(class) == len("2xx") && strings.HasSuffix(class, "xx"):
				all[int(class[0]-'0')] += n
			case counter == "tcp.outbound_"+name+".downstream_cx_total":
				all[0] += n
			}
		}
		return nil
	})
	return all, err
}
