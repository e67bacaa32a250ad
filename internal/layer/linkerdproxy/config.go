package linkerdproxy

import (
	"encoding/json"
	"errors"
	"os"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Policy is Linkerd's default inbound policy.
type Policy string

// The policies, by Linkerd's names. Sidecars use mutual TLS between each other
// with both; they differ in whether others may come in.
const (
	Unauthenticated Policy = "all-unauthenticated"
	Authenticated   Policy = "all-authenticated"
)

// usualImagePath is where the vendor's image has the proxy.
const usualImagePath = "/usr/lib/linkerd/linkerd2-proxy"

// Config is the layer's configuration in a study.
type Config struct {
	// Policy says who may send to pods.
	Policy Policy `json:"policy,omitempty" jsonschema:"enum=all-unauthenticated,enum=all-authenticated,default=all-unauthenticated"`
	// Opaque are services that do not speak HTTP.
	Opaque []string `json:"opaque,omitempty"`

	proxy.Options
}

func parse(raw json.RawMessage) (Config, error) {
	c := Config{Policy: Unauthenticated, Options: proxy.Options{Concurrency: 1}} // Linkerd's default
	if err := model.ReadConfig(raw, &c); err != nil {
		return c, err
	}
	if c.Image != "" && c.ImagePath == "" {
		c.ImagePath = usualImagePath
	}
	err := c.Problems()
	if c.Policy != Unauthenticated && c.Policy != Authenticated {
		err = errors.Join(err, proxy.Bad("policy", "is %q; it can be all-unauthenticated or all-authenticated", c.Policy))
	}
	return c, err
}

// suits finds what the topology does not have.
func (c Config) suits(t model.Topology) error {
	var errs []error
	for _, name := range c.Opaque {
		if !slices.ContainsFunc(t.Services, func(s model.Service) bool { return s.Name == name }) {
			errs = append(errs, proxy.Bad("opaque", "names the service %q, which the topology does not have", name))
		}
	}
	return errors.Join(errs...)
}

// find looks for linkerd2-proxy: at the explicit path, and in PATH.
func find(explicit string) (string, error) {
	const program = "linkerd2-proxy"
	where := "at " + explicit
	if explicit == "" {
		found, err := sys.Look(program)
		if err == nil {
			return found, nil
		}
		where = "in PATH"
	} else if _, err := os.Stat(explicit); err == nil {
		return explicit, nil
	}
	return "", &model.UnsupportedError{
		What: "the layer " + Name, Missing: "no " + program + " " + where,
		Hint: "set the layer's image, e.g. cr.l5d.io/linkerd/proxy:edge-26.8.3 or ghcr.io/linkerd/proxy:edge-26.8.3: the program is taken out of it, without a container engine; or set path",
	}
}
