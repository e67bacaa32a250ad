package main

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/unit"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	env := map[string]string{"KUBELAB_NAME": "x", "KUBELAB_NODES": "1, 3", "KUBELAB_CACHE": "/cache"}
	s, err := read(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if s.state != "/var/lib/x" || s.cache != "/cache" || !strings.HasSuffix(s.source, "/test/kubelab") {
		t.Errorf("%+v", s)
	}
	if len(s.plan.Clusters) != 2 || len(s.plan.Clusters[1].Nodes) != 3 {
		t.Errorf("clusters %+v", s.plan.Clusters)
	}
	for _, nodes := range []string{"two", "0,1", "1,"} {
		env["KUBELAB_NODES"] = nodes
		if _, err := read(func(name string) string { return env[name] }); err == nil {
			t.Errorf("KUBELAB_NODES=%s is accepted", nodes)
		}
	}
}

func TestShortNames(t *testing.T) {
	t.Parallel()
	for short, want := range map[string]string{"api": unit.APIServer, "etcd": unit.Etcd, "kubelet": unit.Kubelet, "proxy": unit.Proxy} {
		if got := processName(short); got != want {
			t.Errorf("%s is %s, want %s", short, got, want)
		}
	}
}
