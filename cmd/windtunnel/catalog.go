//go:build !agent

package main

import (
	"os"
	"slices"

	"github.com/windtunnel/windtunnel/internal/app/bookinfo"
	"github.com/windtunnel/windtunnel/internal/app/echo"
	"github.com/windtunnel/windtunnel/internal/app/graph"
	"github.com/windtunnel/windtunnel/internal/app/nginx"
	"github.com/windtunnel/windtunnel/internal/app/todos"
	"github.com/windtunnel/windtunnel/internal/cli"
	"github.com/windtunnel/windtunnel/internal/driver"
	"github.com/windtunnel/windtunnel/internal/driver/fortio"
	"github.com/windtunnel/windtunnel/internal/driver/h2load"
	"github.com/windtunnel/windtunnel/internal/driver/iperf3"
	"github.com/windtunnel/windtunnel/internal/driver/k6"
	"github.com/windtunnel/windtunnel/internal/driver/ping"
	"github.com/windtunnel/windtunnel/internal/driver/sockperf"
	"github.com/windtunnel/windtunnel/internal/driver/vegeta"
	"github.com/windtunnel/windtunnel/internal/driver/wrk"
	"github.com/windtunnel/windtunnel/internal/driver/wrk2"
	"github.com/windtunnel/windtunnel/internal/fault/cpu"
	"github.com/windtunnel/windtunnel/internal/fault/drain"
	"github.com/windtunnel/windtunnel/internal/fault/kill"
	"github.com/windtunnel/windtunnel/internal/fault/link"
	"github.com/windtunnel/windtunnel/internal/fault/null"
	"github.com/windtunnel/windtunnel/internal/fault/partition"
	"github.com/windtunnel/windtunnel/internal/fault/server"
	"github.com/windtunnel/windtunnel/internal/fault/stall"
	"github.com/windtunnel/windtunnel/internal/layer/anycast"
	"github.com/windtunnel/windtunnel/internal/layer/bridge"
	"github.com/windtunnel/windtunnel/internal/layer/envoy"
	"github.com/windtunnel/windtunnel/internal/layer/gateway"
	"github.com/windtunnel/windtunnel/internal/layer/geneve"
	"github.com/windtunnel/windtunnel/internal/layer/gre"
	"github.com/windtunnel/windtunnel/internal/layer/haproxy"
	"github.com/windtunnel/windtunnel/internal/layer/ipip"
	"github.com/windtunnel/windtunnel/internal/layer/linkerdproxy"
	"github.com/windtunnel/windtunnel/internal/layer/macvlan"
	"github.com/windtunnel/windtunnel/internal/layer/mcs"
	"github.com/windtunnel/windtunnel/internal/layer/mesh"
	"github.com/windtunnel/windtunnel/internal/layer/nftservice"
	"github.com/windtunnel/windtunnel/internal/layer/nodeport"
	"github.com/windtunnel/windtunnel/internal/layer/ovs"
	"github.com/windtunnel/windtunnel/internal/layer/policy"
	"github.com/windtunnel/windtunnel/internal/layer/routed"
	"github.com/windtunnel/windtunnel/internal/layer/vxlan"
	"github.com/windtunnel/windtunnel/internal/layer/wireguard"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/oci"
	"github.com/windtunnel/windtunnel/internal/proxy"
	"github.com/windtunnel/windtunnel/internal/report/csv"
	fortioreport "github.com/windtunnel/windtunnel/internal/report/fortio"
	"github.com/windtunnel/windtunnel/internal/report/hdr"
	"github.com/windtunnel/windtunnel/internal/report/html"
	"github.com/windtunnel/windtunnel/internal/report/json"
	"github.com/windtunnel/windtunnel/internal/report/junit"
	"github.com/windtunnel/windtunnel/internal/report/latex"
	"github.com/windtunnel/windtunnel/internal/report/markdown"
	"github.com/windtunnel/windtunnel/internal/report/openmetrics"
	"github.com/windtunnel/windtunnel/internal/report/svg"
	"github.com/windtunnel/windtunnel/internal/report/text"
	"github.com/windtunnel/windtunnel/internal/sample/wire"
	userspace "github.com/windtunnel/windtunnel/internal/sys/wireguard"
	"github.com/windtunnel/windtunnel/internal/target/lab"
	"github.com/windtunnel/windtunnel/studies"
)

// catalog is every plug-in there is: adding one is a folder and a line here.
func catalog(runtimeDir string) cli.Catalog {
	c := cli.Catalog{
		Lab:        lab.New(lab.StateDir(os.Getuid(), runtimeDir)),
		Layers:     layers(),
		Apps:       apps(),
		AppServers: appServers(),
		Generator:  generators(),
		Drivers: []model.Plugin[driver.Driver]{
			fortio.Plugin(),
			h2load.Plugin(),
			iperf3.Plugin(),
			k6.Plugin(),
			ping.Plugin(),
			sockperf.Plugin(),
			vegeta.Plugin(),
			wrk.Plugin(),
			wrk2.Plugin(),
		},
		Faults: faults(),
		Formats: []cli.Format{
			{Name: "text", Summary: "for a terminal", Format: text.Format{}},
			{Name: "md", Summary: "for a pull request", Format: markdown.Format{}},
			{Name: "csv", Summary: "every value of every trial", Format: csv.Format{}},
			{Name: "html", Summary: "one self-contained page", Format: html.Format{}},
			{Name: "json", Summary: "the report's model", Format: json.Format{}},
			{Name: "latex", Summary: "tables for papers", Format: latex.Format{}},
			{Name: "svg", Summary: "figures for papers", Format: svg.Format{}},
			{Name: "junit", Summary: "gates and findings as test cases", Format: junit.Format{}},
			{Name: "openmetrics", Summary: "histograms and metrics for Prometheus", Format: openmetrics.Format{}},
			{Name: "fortio", Summary: "results for Fortio's page", Format: fortioreport.Format{}},
			{Name: "hdr", Summary: "latencies as an HdrHistogram log", Format: hdr.Format{}},
		},
		Readers:   readers(),
		Witness:   wire.Witness{},
		DelayLine: lab.ServeDelayLine,
		WireGuard: userspace.Serve,
		OpenFlow:  ovs.Serve,
		BurnCPU:   cpu.Burn,
	}
	c.StudyFiles = studies.Files()
	for _, s := range studies.List() {
		c.Studies = append(c.Studies, cli.Study{Name: s.Name, Question: s.Question, Data: s.Data})
	}
	return c
}

// layers are those of stacks: the lab's, network layers first, then those of
// real clusters.
func layers() []model.Plugin[model.Layer] {
	here := []model.Plugin[model.Layer]{
		bridge.Plugin(),
		routed.Plugin(),
		macvlan.Plugin(),
		vxlan.Plugin(),
		ipip.Plugin(),
		gre.Plugin(),
		geneve.Plugin(),
		wireguard.Plugin(),
		ovs.Plugin(),
		policy.Plugin(),
		nftservice.Plugin(),
		nodeport.Plugin(),
		anycast.Plugin(proxy.Find),
		gateway.Plugin(proxy.Find),
		envoy.Plugin(proxy.Find),
		haproxy.Plugin(haproxy.Find),
		linkerdproxy.Plugin(oci.Usual),
	}
	return slices.Concat(here, mesh.Plugins(), mcs.Plugins())
}

// faults are the harms of scenarios.
func faults() []model.Plugin[model.Fault] {
	return []model.Plugin[model.Fault]{
		cpu.Plugin(),
		drain.Plugin(),
		kill.Plugin(),
		link.Plugin(),
		null.Plugin(),
		partition.Plugin(),
		server.Plugin(),
		stall.Plugin(),
	}
}

func apps() []model.Plugin[model.App] {
	return []model.Plugin[model.App]{
		echo.Plugin(),
		nginx.Plugin(),
		graph.Plugin(),
		bookinfo.Plugin(),
		todos.Plugin(),
	}
}

// appServers are what apps of several services start in pods.
func appServers() map[string]cli.AppServer {
	return map[string]cli.AppServer{
		graph.Name:    graph.Serve,
		bookinfo.Name: bookinfo.Serve,
		todos.Name:    todos.Serve,
	}
}
