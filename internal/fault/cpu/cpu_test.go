package cpu_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fault/cpu"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{labtest.CommandServe: labtest.Serve, cpu.Command: burn})
}

func burn(args []string) int {
	if err := cpu.Burn(args[0], os.Stdin, os.Stdout); err != nil {
		return 1
	}
	return 0
}

func TestConformance(t *testing.T) {
	t.Parallel()
	labtest.Fault(t, labtest.FaultSuite{Plugin: cpu.Plugin(), Cases: map[string]labtest.FaultCase{
		"pod": {Config: `{"pods": ["server-1"]}`}, "node": {Config: `{"nodes": ["node-1"], "threads": 2}`},
	}})
}

// What it says that it takes it must really take.
func TestMeasuredBack(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	f := labtest.New(t, cpu.Plugin(), `{"pods": ["server-0"], "threads": 1}`)
	heal, err := f.Inject(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	observer, ok := f.(model.FaultObserver)
	if !ok {
		t.Fatal("it does not observe")
	}
	facts, err := observer.Observe(t.Context(), site)
	if err != nil || len(facts) != 1 || facts[0].Key != "CPU time taken in pod server-0" {
		t.Fatalf("%+v, %v", facts, err)
	}
	var threads int
	var cores float64
	if _, err := fmt.Sscanf(facts[0].Value, "asked %d threads; observed %f cores", &threads, &cores); err != nil || threads != 1 || cores <= 0 || cores > 1.1 {
		t.Errorf("%q: %v", facts[0].Value, err)
	}
	if err := heal(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBurn(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := cpu.Burn("1", strings.NewReader("\n\n"), &out); err != nil || strings.Count(out.String(), `"cpu_ns"`) != 2 {
		t.Errorf("%q, %v", out.String(), err)
	}
	for _, threads := range []string{"", "0", "257", "x"} {
		if err := cpu.Burn(threads, strings.NewReader(""), &out); err == nil {
			t.Errorf("%q threads are taken", threads)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	labtest.Configs(t, cpu.Plugin(), map[string]string{
		`{}`:                            "names nothing",
		`{"pods": ["a"], "threads": 0}`: "threads is 0",
		`{"pods": "a"}`:                 "reading",
		`{"regions": ["a"]}`:            "unknown field",
	})
}
