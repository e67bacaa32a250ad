//go:build kube && !agent

package main

import (
	"github.com/windtunnel/windtunnel/internal/cli"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/target/kube"
)

// withKube adds the target of real clusters, whose libraries double the memory
// of every process: docs/adr/0010 says why this is a program of its own.
func withKube(c cli.Catalog) cli.Catalog {
	c.Kube = func(k model.Kube, o cli.KubeOptions) cli.KubeTarget {
		return kube.New(k, kube.Options{Kubeconfig: o.Kubeconfig, Version: o.Version, Run: o.Run, Placement: kube.PlacementOf(o.Earlier)})
	}
	return c
}
