// Package labtest lets tests run inside a lab, and holds the conformance
// suites of layers and apps.
//
// A test binary that wants a lab calls Main from TestMain. Main runs the binary
// again inside the lab, as the program itself would, so that tests use the same
// namespaces, processes and control groups as studies do:
//
//	func TestMain(m *testing.M) { labtest.Main(m, nil) }
//
//	func TestReachable(t *testing.T) {
//		site := labtest.TwoNodes(t)
//		...
//	}
package labtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/target/lab"
)

// required is what $WINDTUNNEL_REQUIRE calls the ability to make a lab.
const required = "lab"

// here is the lab that Main entered. TestMain and tests have no other way to
// hand a value on.
var here struct { //nolint:gochecknoglobals // see above
	target  *lab.Target
	missing error // why there is no lab
}

// Commands are what the test binary does as a child process: a pod's process
// {"{self}", "serve", "8080"} calls commands["serve"]([]string{"8080"}), and
// what it returns is the exit status.
type Commands map[string]func(args []string) int

// Main runs the tests inside a lab and ends the program. Where the host cannot
// make a lab it runs them outside, and Need skips. What the tests have leaked
// makes them fail.
func Main(m *testing.M, commands Commands) {
	os.Exit(run(m, commands, os.Stderr)) //nolint:forbidigo // this is the test binary's main
}

func run(m *testing.M, commands Commands, stderr io.Writer) int {
	args := sys.Args()
	if len(args) > 0 {
		if command := withDelayLine(commands, stderr)[args[0]]; command != nil {
			return command(args[1:])
		}
	}
	here.missing = errors.New("this process is a fuzzing worker")
	if !fuzzing(args) {
		inside, code, err := enter()
		if err == nil && !inside {
			return code
		}
		here.missing = err
	}
	if here.missing != nil {
		return m.Run()
	}
	before, err := residue()
	if err != nil {
		return fail(stderr, err)
	}
	code := m.Run()
	if err := leaks(before); err != nil {
		return fail(stderr, err)
	}
	if err := here.target.Close(); err != nil {
		return fail(stderr, err)
	}
	return code
}

// withDelayLine are the commands, and the lab's own.
func withDelayLine(commands Commands, stderr io.Writer) Commands {
	all := Commands{lab.DelayLine: func([]string) int {
		stdio := sys.Stdio()
		if err := lab.ServeDelayLine(stdio[0], stdio[1]); err != nil {
			return fail(stderr, err)
		}
		return 0
	}}
	maps.Copy(all, commands)
	return all
}

func fail(w io.Writer, err error) int {
	_, _ = fmt.Fprintln(w, "labtest:", err) // there is nobody else to tell
	return 1
}

// fuzzing says whether the fuzzer talks to this process over pipes that a
// second process would not inherit.
func fuzzing(args []string) bool {
	for _, a := range args {
		if strings.HasPrefix(a, "-test.fuzz") {
			return true
		}
	}
	return false
}

func enter() (inside bool, code int, err error) {
	here.target = lab.New(lab.StateDir(os.Getuid(), ""))
	inside, code, err = here.target.Enter(context.Background())
	if inside && err == nil {
		here.target.KeepAwake(false) // as `windtunnel run` does
	}
	return inside, code, err
}

// Need returns the lab that the test runs in. Without one the test is skipped,
// or fails where $WINDTUNNEL_REQUIRE contains "lab".
func Need(tb testing.TB) *lab.Target {
	tb.Helper()
	why := here.missing
	if why == nil && here.target == nil {
		why = errors.New("the package's TestMain does not call labtest.Main")
	}
	if why == nil {
		return here.target
	}
	if sys.Required(required) {
		tb.Fatalf("this test needs a lab, and $WINDTUNNEL_REQUIRE says that there must be one: %v", why)
	}
	tb.Skipf("this test needs a lab: %v", why)
	return nil
}

// Site makes a topology real for the length of the test.
func Site(tb testing.TB, topology model.Topology) model.Site {
	tb.Helper()
	site, err := Need(tb).Provision(tb.Context(), topology)
	if err != nil {
		tb.Fatalf("provisioning: %v", err)
	}
	tb.Cleanup(func() {
		logs := map[string][]byte{}
		if s, ok := site.(model.LoggedSite); ok && tb.Failed() {
			logs = s.Logs()
		}
		for name, log := range logs {
			tb.Logf("log of %s:\n%s", name, log)
		}
		if err := site.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Errorf("closing the site: %v", err)
		}
	})
	return site
}

// TwoNodes is a site with the pods client-0 on node-0, and server-0 and
// server-1 on node-1, and the service "server" in front of them: port 80 to
// target port 8080.
func TwoNodes(tb testing.TB) model.Site {
	tb.Helper()
	return Site(tb, Topology(2))
}

// Topology is TwoNodes' with any number of servers.
func Topology(servers int) model.Topology {
	svc := model.Service{Name: "server", Port: 80, TargetPort: 8080}
	var pods []model.PodSpec
	for i := range servers {
		name := fmt.Sprintf("server-%d", i)
		pods = append(pods, model.PodSpec{Name: name, Role: "server"})
		svc.Pods = append(svc.Pods, name)
	}
	return model.Topology{
		Regions: []model.Region{{Name: "region-0", Clusters: []model.Cluster{{Name: "cluster-0", Nodes: []model.Node{
			{Name: "node-0", Pods: []model.PodSpec{{Name: "client-0", Role: "client"}}},
			{Name: "node-1", Pods: pods},
		}}}}},
		Services: []model.Service{svc},
	}
}

// Pod finds a pod of the site.
func Pod(tb testing.TB, site model.Site, name string) model.Pod {
	tb.Helper()
	p, err := site.Pod(name)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// Network finds the network namespace of a pod or of a node.
func Network(tb testing.TB, site model.Site, name string) model.Namespace {
	tb.Helper()
	if p, err := site.Pod(name); err == nil {
		if ns, ok := p.(model.Namespace); ok {
			return ns
		}
		tb.Fatalf("pod %s of %T has no network namespace of this host", name, site)
	}
	nodes, ok := site.(model.NodeSite)
	if !ok {
		tb.Fatalf("%T has no nodes that can be entered", site)
	}
	ns, err := nodes.Node(name)
	if err != nil {
		tb.Fatal(err)
	}
	return ns
}

// In runs f inside the network namespace of a pod or of a node.
func In(tb testing.TB, site model.Site, name string, f func() error) {
	tb.Helper()
	if err := Network(tb, site, name).InNetwork(f); err != nil {
		tb.Fatalf("in the network of %s: %v", name, err)
	}
}
