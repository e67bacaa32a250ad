package study

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

// tiers is an app that wants the services of bookinfo.
type tiers struct{ model.App }

func (tiers) CheckTopology(t model.Topology) error {
	if t.Services[0].Name == "productpage" {
		return nil
	}
	return errors.Join(&model.ConfigError{Key: "kind", Text: "needs another topology"}, &model.ConfigError{Key: "more", Text: "is wrong, too"})
}

func (tiers) CheckLoad(l model.Load) error {
	if l.Name == "mute" {
		return errors.New("is not spoken")
	}
	return nil
}

func withTiers() Known {
	k := catalog()
	k.Apps = append(k.Apps, model.Plugin[model.App]{Name: "tiers", Summary: "Several services.", New: func(json.RawMessage) (model.App, error) { return tiers{}, nil }})
	return k
}

func TestAppLooksAtTheTopology(t *testing.T) {
	t.Parallel()
	text := strings.Replace(small, "kind: echo", "kind: tiers", 1)
	_, err := Parse("f.yaml", []byte(text), withTiers())
	for _, want := range []string{"f.yaml:5:13: app.kind: needs another topology", "app.more: is wrong, too"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	s, err := Parse("f.yaml", []byte(strings.Replace(text, "app:", "topology: {preset: bookinfo}\napp:", 1)), withTiers())
	if err != nil || s.Loads[0].To != "productpage" {
		t.Errorf("%v; the load goes to %q, not to the first service", err, s.Loads[0].To)
	}
}

func TestAppLooksAtTheLoads(t *testing.T) {
	t.Parallel()
	text := strings.Replace(small, "app: {kind: echo}", "topology: {preset: bookinfo}\napp: {kind: tiers}", 1)
	_, err := Parse("f.yaml", []byte(strings.Replace(text, "name: peak", "name: mute", 1)), withTiers())
	if err == nil || !strings.Contains(err.Error(), "loads[0].protocol: is not spoken") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

func TestReplicasOfBookinfo(t *testing.T) {
	t.Parallel()
	text := strings.Replace(small, "kind: echo", "kind: tiers, replicas: 2", 1)
	s, err := Parse("f.yaml", []byte(strings.Replace(text, "app:", "topology: {preset: bookinfo}\napp:", 1)), withTiers())
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, svc := range s.Topology.Services {
		sizes = append(sizes, len(svc.Pods))
		if svc.Port != 9080 || svc.TargetPort != 9080 {
			t.Errorf("%+v", svc)
		}
	}
	if len(sizes) != 4 || sizes[0] != 2 || sizes[1] != 2 || sizes[2] != 6 || sizes[3] != 2 {
		t.Errorf("pods of the services: %v", sizes)
	}
}
