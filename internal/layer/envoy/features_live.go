package envoy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/parallel"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// live is what lets proxies be changed while they run: their listeners,
// clusters and certificates come, as from a control plane, over xDS, from files.
// It is off unless Routable was called.
type live struct {
	on      bool
	version int
	rules   model.Rules
	door    *proxy.Envoy // the ingress, where the rules have one
}

// steered is a proxy that can be changed.
type steered struct {
	*proxy.Envoy

	static func() ([]byte, error) // its configuration without rules
	// roles are those that it has certificates for, by the name of the secret.
	roles map[string]string
}

// The files of xDS.
const (
	fileListeners = "lds.json"
	fileClusters  = "cds.json"
)

// The messages in them.
const (
	messageListener = "envoy.config.listener.v3.Listener"
	messageCluster  = "envoy.config.cluster.v3.Cluster"
	messageSecret   = "envoy.extensions.transport_sockets.tls.v3.Secret"
)

// fileSecret is the file of a secret. Secrets have the names of the files of
// their certificates, without their endings.
func fileSecret(name string) string { return "sds-" + name + ".json" }

// changeable is how a proxy is run: from files that can be replaced, if need be.
func (v *live) changeable(s proxy.Spec) (proxy.Spec, error) {
	if !v.on {
		return s, nil
	}
	var err error
	s.Files, err = v.split(s.Files)
	s.Args = append(s.Args, proxy.FlushSpans()...) // so that access logs can be read at once
	// Connections keep the filters with which they began. So that new ones hold
	// soon, an answer on an old connection is its last: Envoy's usual way is to
	// close them little by little over 10 minutes, and Istio's over 45 s.
	s.Args = append(s.Args, "--drain-strategy", "immediate", "--drain-time-s", "5")
	return s, err
}

// split takes listeners, clusters and certificates out of a static configuration
// and into files of their own.
func (v *live) split(files map[string][]byte) (map[string][]byte, error) {
	var config object
	if err := json.Unmarshal(files["envoy.json"], &config); err != nil {
		return nil, fmt.Errorf("reading a proxy's configuration: %w", err)
	}
	static, _ := config["static_resources"].(object)
	listeners, _ := static["listeners"].(list)
	clusters, _ := static["clusters"].(list)
	delete(config, "static_resources")
	secrets := map[string]object{}
	withSecrets(listeners, secrets)
	withSecrets(clusters, secrets)
	from := func(name string) object {
		return object{"resource_api_version": "V3", "path_config_source": object{"path": "{dir}/" + name}}
	}
	config["dynamic_resources"] = object{"lds_config": from(fileListeners), "cds_config": from(fileClusters)}
	made := map[string]object{
		"envoy.json":  config,
		fileListeners: v.discovered(messageListener, listeners),
		fileClusters:  v.discovered(messageCluster, clusters),
	}
	for name, certificate := range secrets {
		made[fileSecret(name)] = v.discovered(messageSecret, list{object{"name": name, "tls_certificate": certificate}})
	}
	for name, value := range made {
		text, err := proxy.Encode(value)
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	return files, nil
}

// discovered is a file of xDS.
func (v *live) discovered(message string, resources list) object {
	for _, r := range resources {
		if o, ok := r.(object); ok {
			proxy.Typed(message, o)
		}
	}
	return object{"version_info": strconv.Itoa(v.version), "resources": resources}
}

// withSecrets has every TLS context take its certificate from a file of secrets,
// instead of for good from one of its own. It adds the certificates to secrets.
func withSecrets(config any, secrets map[string]object) {
	switch c := config.(type) {
	case object:
		if all, _ := c["tls_certificates"].(list); len(all) > 0 {
			certificate, _ := all[0].(object)
			chain, _ := certificate["certificate_chain"].(object)
			path, _ := chain["filename"].(string)
			name := strings.TrimSuffix(filepath.Base(path), ".pem")
			secrets[name] = certificate
			delete(c, "tls_certificates")
			c["tls_certificate_sds_secret_configs"] = list{object{"name": name, "sds_config": object{
				"resource_api_version": "V3", "path_config_source": object{"path": "{dir}/" + fileSecret(name)},
			}}}
		}
		for _, inner := range c {
			withSecrets(inner, secrets)
		}
	case list:
		for _, inner := range c {
			withSecrets(inner, secrets)
		}
	}
}

// push replaces the files of proxies, in that order, by those that follow the
// rules, and waits for each file until it is followed.
func (v *live) push(ctx context.Context, m *mesh, all []steered, order ...string) error {
	v.version++
	return parallel.Each(all, func(p steered) error {
		files, err := v.ruled(m, p)
		if err != nil {
			return err
		}
		for _, name := range order {
			var refused uint64
			before := func(stats []byte) (bool, error) {
				refused = refusals(name, stats)
				return true, nil
			}
			if err = p.Until(ctx, pageFollowed, before); err == nil {
				err = p.Replace(name, files[name])
			}
			if err == nil {
				err = p.Until(ctx, pageFollowed, followed(name, v.version, refused))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// ruled are a proxy's files under the rules.
func (v *live) ruled(m *mesh, p steered) (map[string][]byte, error) {
	static, err := p.static()
	if err != nil {
		return nil, err
	}
	var config object
	if err = json.Unmarshal(static, &config); err != nil {
		return nil, fmt.Errorf("reading a proxy's configuration: %w", err)
	}
	if err = m.follow(config, v.rules); err != nil {
		return nil, err
	}
	text, err := proxy.Encode(config)
	if err != nil {
		return nil, err
	}
	return v.split(map[string][]byte{"envoy.json": text})
}

// pageFollowed has what followed looks at.
const pageFollowed = "/stats?filter=(version_text|update_rejected|warming)"

// manager is what follows a file, with what it is waiting for.
func manager(file string) (name, warming string) {
	if file == fileClusters {
		return "cluster_manager.cds", "cluster_manager.warming_clusters"
	}
	return "listener_manager.lds", "listener_manager.total_listeners_warming"
}

// refusals is how many versions of a file a proxy has refused.
func refusals(file string, stats []byte) uint64 {
	name, _ := manager(file)
	for counter, n := range proxy.Counters(stats) {
		if counter == name+".update_rejected" {
			return n
		}
	}
	return 0
}

// followed says of Envoy's statistics whether a file's version is the live one;
// refused is how many were refused before.
func followed(file string, version int, refused uint64) func(stats []byte) (bool, error) {
	name, warming := manager(file)
	want := []byte(name + `.version_text: "` + strconv.Itoa(version) + `"`)
	return func(stats []byte) (bool, error) {
		if refusals(file, stats) > refused {
			return false, errors.New("it has refused a file of ours (its log is in the run folder)")
		}
		for counter := range proxy.Counters(stats) {
			if counter == warming {
				return false, nil
			}
		}
		return bytes.Contains(stats, want), nil
	}
}

// rotate gives every proxy new keys and certificates, of the same identities, and
// waits until none uses the old ones.
func (v *live) rotate(ctx context.Context, m *mesh, all []steered) error {
	v.version++
	return parallel.Each(all, func(p steered) error {
		old, err := p.serials(ctx)
		if err != nil {
			return err
		}
		for name, role := range p.roles {
			if err = v.renew(m, p, name, role); err != nil {
				return err
			}
		}
		return p.Until(ctx, "/certs", func(body []byte) (bool, error) {
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

// renew replaces one secret of a proxy.
func (v *live) renew(m *mesh, p steered, name, role string) error {
	cert, key, err := m.leaf(role)
	if err != nil {
		return err
	}
	suffix := name + "-" + strconv.Itoa(v.version) + ".pem"
	text, err := proxy.Encode(v.discovered(messageSecret, list{object{
		"name": name, "tls_certificate": object{"certificate_chain": file("new-" + suffix), "private_key": file("new-key-" + suffix)},
	}}))
	if err != nil {
		return err
	}
	if err = errors.Join(p.Replace("new-"+suffix, cert), p.Replace("new-key-"+suffix, key)); err != nil {
		return err
	}
	return p.Replace(fileSecret(name), text)
}

// serials are the numbers of the certificates that a proxy uses.
func (p steered) serials(ctx context.Context) (map[string]bool, error) {
	raw, err := p.Ask(ctx, "/certs")
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

// countRequests counts the requests to a service by class of status, as clients' proxies
// or waypoints have counted them, and connections, class 0, where they see no more.
func countRequests(ctx context.Context, all []steered, service string) (map[int]uint64, error) {
	var mu sync.Mutex
	sum := map[int]uint64{}
	err := parallel.Each(all, func(p steered) error {
		raw, err := p.Ask(ctx, "/stats")
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for counter, n := range proxy.Counters(raw) {
			for _, at := range []string{"outbound_", "waypoint_"} {
				class, ok := strings.CutPrefix(counter, "http."+at+service+".downstream_rq_")
				if ok && len(class) == len("2xx") && strings.HasSuffix(class, "xx") {
					sum[int(class[0]-'0')] += n
				}
			}
			if counter == "tcp.outbound_"+service+".downstream_cx_total" {
				sum[0] += n
			}
		}
		return nil
	})
	return sum, err
}
