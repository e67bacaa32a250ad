//go:build kube && !agent

package main

import (
	"os"
	"path/filepath"

	"github.com/windtunnel/windtunnel/internal/cli"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/target/kube"
	"github.com/windtunnel/windtunnel/internal/target/kube/helm"
)

// withKube adds the target of real clusters, whose libraries double the memory
// of every process: docs/adr/0010 says why this is a program of its own.
func withKube(c cli.Catalog) cli.Catalog {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // no home: what is fetched is fetched again
	}
	charts := helm.Installer{Cache: filepath.Join(cache, "windtunnel", "charts")}
	c.Kube = func(k model.Kube, o cli.KubeOptions) cli.KubeTarget {
		return kube.New(k, kube.Options{
			Kubeconfig: o.Kubeconfig, Version: o.Version, Run: o.Run, Placement: kube.PlacementOf(o.Earlier), Meshes: o.Meshes, Charts: charts, Faults: o.Faults,
		})
	}
	return c
}
