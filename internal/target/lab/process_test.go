package lab_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func ignore() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT) }

func start(t *testing.T, site model.Site, pod string, p model.Process) model.Running {
	t.Helper()
	if p.Component == "" {
		p.Component = model.ComponentApp
	}
	r, err := labtest.Pod(t, site, pod).Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func logOf(t *testing.T, site model.Site, name string) string {
	t.Helper()
	logged, ok := site.(model.LoggedSite)
	if !ok {
		t.Fatalf("%T keeps no logs", site)
	}
	return string(logged.Logs()[name])
}

// await returns when the log of a process contains text.
func await(t *testing.T, site model.Site, name, text string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); ; <-tick.C {
		log := logOf(t, site, name)
		if strings.Contains(log, text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q never printed by %s: %q", text, name, log)
		}
	}
}

// readings samples the site by "subject metric".
func readings(t *testing.T, site model.Site) map[string]float64 {
	t.Helper()
	sampled, ok := site.(model.SampledSite)
	if !ok {
		t.Fatalf("%T cannot be sampled", site)
	}
	if why := sampled.Unavailable(); len(why) > 0 {
		t.Skip(why)
	}
	values := map[string]float64{}
	for _, s := range sampled.Samplers() {
		all, err := s.Sample(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			values[r.Subject+" "+r.Metric] = r.Value
		}
	}
	return values
}

func TestProcessHasFilesEnvironmentAndLog(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	r := start(t, site, "server-0", model.Process{
		Name: "show", Env: []string{"WHERE={dir}"}, Files: map[string][]byte{"hello": []byte("from a file\n")},
		Command: []string{"sh", "-c", "env | sort; cat {dir}/hello; stat -c %a {dir} {dir}/hello; exit 3"},
	})
	<-r.Done()
	if err := r.Err(); err == nil || err.Error() != "exit status 3" {
		t.Errorf("ended with %v", err)
	}
	log := logOf(t, site, "server-0/show")
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	dir, _, _ := strings.Cut(log[strings.Index(log, "WHERE=")+len("WHERE="):], "\n")
	want := "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nPWD=DIR\nWHERE=" + dir + "\nfrom a file\n700\n600\n"
	if wd, err := os.Getwd(); err == nil {
		want = strings.Replace(want, "DIR", wd, 1)
	}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the files outlive the process: %v", err)
	}
}

// A file is replaced at once and whole, and goes with the others.
func TestReplacedFile(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	with := start(t, site, "server-0", model.Process{Name: "cat", Command: []string{"{self}", "cat"}, Piped: true, Files: map[string][]byte{"f": []byte("old")}})
	w, ok := with.(model.Rewriter)
	if !ok {
		t.Fatalf("%T cannot replace files", with)
	}
	if err := w.WriteFile("f", []byte("new, in {dir}")); err != nil {
		t.Fatal(err)
	}
	finisher, _ := with.(model.Finisher)
	text, err := finisher.ReadFile("f", 1000)
	dir, found := strings.CutPrefix(string(text), "new, in ")
	if err != nil || !found || !filepath.IsAbs(dir) {
		t.Errorf("%q, %v", text, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	if err := w.WriteFile("../f", nil); err == nil {
		t.Error("a file outside the folder was written")
	}
	if err := with.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := w.WriteFile("f", nil); err == nil {
		t.Error("a file was written after the process had ended")
	}
	without := start(t, site, "server-0", model.Process{Name: "cat2", Command: []string{"{self}", "cat"}, Piped: true})
	if w, _ := without.(model.Rewriter); w.WriteFile("f", nil) == nil {
		t.Error("a process without a folder has a file")
	}
}

func TestPipedProcess(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	r := start(t, site, "client-0", model.Process{Name: "cat", Command: []string{"{self}", "cat"}, Piped: true})
	if _, err := io.WriteString(r.Stream(), "there and back\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(r.Stream()).ReadString('\n'); err != nil || line != "there and back\n" {
		t.Errorf("%q, %v", line, err)
	}
	if err := r.Stop(t.Context()); err != nil || r.Err() != nil {
		t.Errorf("%v, %v", err, r.Err())
	}
}

func TestStopEndsWhatIgnoresIt(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	r := start(t, site, "server-0", model.Process{Name: "stubborn", Command: []string{"sh", "-c", "{self} stubborn & {self} stubborn & wait"}})
	await(t, site, "server-0/stubborn", "ready\nready\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no grace
	for range 2 {
		if err := r.Stop(ctx); err != nil || r.Err() != nil {
			t.Errorf("%v, %v", err, r.Err())
		}
	}
	// That its children are gone too is the leak check's to see: they are in its group.
}

func TestUnknownProgram(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	_, err := labtest.Pod(t, site, "client-0").Start(t.Context(), model.Process{
		Name: "x", Component: model.ComponentApp, Command: []string{"no-such-program"}, Files: map[string][]byte{"f": nil},
	})
	if err == nil || !strings.Contains(err.Error(), "pod client-0, process x: starting no-such-program") {
		t.Errorf("%v", err)
	}
}

// A CPU burn in a short-lived grandchild is all on its component's account.
func TestCPUIsAccountedFromBirth(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	readings(t, site)
	r := start(t, site, "server-0", model.Process{
		Name: "burn", Component: model.ComponentSidecar,
		Command: []string{"sh", "-c", "for i in 1 2 3 4; do {self} burn 50ms & wait; done"},
	})
	<-r.Done()
	got := readings(t, site)
	const burnt = 0.2
	// On a busy machine 50 ms of wall time are less than 50 ms of CPU.
	if cpu := got["server-0/sidecar cpu_seconds"]; cpu < burnt/10 || cpu > 3*burnt {
		t.Errorf("200 ms of work were accounted as %v s", cpu)
	}
	if _, other := got["server-1/sidecar cpu_seconds"]; other {
		t.Error("a pod that runs nothing has an account")
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	readings(t, site)
	limited := start(t, site, "server-0", model.Process{Name: "limited", Command: []string{"{self}", "burn", "600ms"}, Limits: model.Limits{CPU: 0.1}})
	// A second process of the component has no limit.
	start(t, site, "server-0", model.Process{Name: "free", Command: []string{"{self}", "cat"}})
	<-limited.Done()
	got := readings(t, site)
	if cpu := got["server-0/app cpu_seconds"]; cpu > 0.3 {
		t.Errorf("a tenth of a CPU for 600 ms was %v s", cpu)
	}
	if got["server-0/app throttled_periods"] < 1 || got["server-0/app throttled_seconds"] <= 0 {
		t.Errorf("not throttled: %v", got)
	}
	hungry := start(t, site, "server-1", model.Process{
		Name: "hungry", Command: []string{"sh", "-c", "tail /dev/zero"}, Limits: model.Limits{Memory: 16 << 20},
	})
	<-hungry.Done()
	if hungry.Err() == nil {
		t.Error("16 MiB were enough for endless memory")
	}
	if got = readings(t, site); got["server-1/app memory_kills"] < 1 {
		t.Errorf("nobody was killed: %v", got)
	}
}

// All processes of a component share its limit, those that start later, too.
func TestComponentLimits(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	limited, ok := site.(model.LimitedSite)
	if !ok {
		t.Fatal("the lab has no limits")
	}
	start(t, site, "server-0", model.Process{Name: "early", Component: model.ComponentSidecar, Command: []string{"{self}", "cat"}})
	readings(t, site)
	want := model.Limits{CPU: 0.05, Memory: 64 << 20}
	facts, err := limited.Limit(model.ComponentLimits{model.ComponentSidecar: want, model.ComponentGateway: {CPU: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if len(facts) != 1 || facts[0].Value != "50m CPU, 64 MiB" {
		t.Errorf("the ledger has %v", facts)
	}
	free := start(t, site, "server-1", model.Process{Name: "free", Command: []string{"{self}", "burn", "100ms"}})
	var burning []model.Running
	for _, name := range []string{"one", "two"} {
		burning = append(burning, start(t, site, "server-0", model.Process{Name: name, Component: model.ComponentSidecar, Command: []string{"{self}", "burn", "1500ms"}}))
	}
	for _, r := range append(burning, free) {
		<-r.Done()
	}
	got := readings(t, site)
	// Both together: 5 ms of every 100 ms, and one period's more at the start.
	if cpu := got["server-0/sidecar cpu_seconds"]; cpu > 0.6 {
		t.Errorf("5 %% of a CPU for at least 1.5 s was %v s", cpu)
	}
	periods, throttled := got["server-0/sidecar quota_periods"], got["server-0/sidecar throttled_periods"]
	if throttled < 1 || periods < throttled || got["server-0/sidecar throttled_seconds"] <= 0 {
		t.Errorf("throttled in %v of %v periods: %v", throttled, periods, got)
	}
	if got["server-1/app quota_periods"] != 0 {
		t.Error("another component is limited")
	}
}

// The generator has its own CPU, and nothing else of the lab may use it.
func TestCPUs(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	host := labtest.Need(t).Host()
	for _, exclusive := range []bool{true, false} {
		name := fmt.Sprintf("show-%t", exclusive)
		r := start(t, site, "client-0", model.Process{Name: name, Exclusive: exclusive, Command: []string{"grep", "Cpus_allowed_list", "/proc/self/status"}})
		<-r.Done()
		want := host.OtherCPUs
		if exclusive {
			want = host.GeneratorCPUs
		}
		if len(want) != 1 {
			t.Skip("the list would not be a single number")
		}
		await(t, site, "client-0/"+name, fmt.Sprintf("Cpus_allowed_list:\t%d\n", want[0]))
	}
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if len(host.OtherCPUs) == 1 && !strings.Contains(string(raw), fmt.Sprintf("Cpus_allowed_list:\t%d\n", host.OtherCPUs[0])) {
		t.Error("the runner itself uses the generator's CPU")
	}
}

// Orphans must not stay in the process table.
func TestOrphansAreBuried(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	r := start(t, site, "server-0", model.Process{Name: "orphan", Command: []string{"sh", "-c", "(sleep 0.05; echo orphan $(sh -c 'echo $PPID') ends) & exit 0"}})
	<-r.Done()
	await(t, site, "server-0/orphan", "ends")
	var pid int
	if _, err := fmt.Sscanf(logOf(t, site, "server-0/orphan"), "orphan %d", &pid); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-tick.C {
		if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); os.IsNotExist(err) {
			return
		}
	}
	t.Errorf("process %d is still there", pid)
}
