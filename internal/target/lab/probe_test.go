package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/target/lab"
)

// probe is `doctor` in little: it prints what Probes says outside a lab.
func probe(args []string) int {
	b, err := json.Marshal(lab.New(args[0]).Probes(context.Background()))
	if err != nil {
		return 1
	}
	fmt.Println(string(b))
	return 0
}

func checkProbes(t *testing.T, probes []model.Probe) {
	t.Helper()
	seen := map[string]bool{}
	for _, p := range probes {
		if seen[p.Name] {
			t.Errorf("%s is probed twice", p.Name)
		}
		seen[p.Name] = true
		if p.Detail == "" || p.Needed == "" || !p.OK && p.Hint == "" {
			t.Errorf("incomplete: %+v", p)
		}
	}
	for _, p := range probes {
		if !p.OK && (p.Name == "lab" || p.Name == "device veth" || p.Name == "device bridge") {
			t.Errorf("%+v, but this test has it", p)
		}
	}
	if !seen["device veth"] || !seen["queue netem"] {
		t.Errorf("the kernel was not probed: %+v", probes)
	}
}

func TestProbes(t *testing.T) {
	t.Parallel()
	checkProbes(t, labtest.Need(t).Probes(t.Context()))
}

// From outside, probing makes a place for itself, as root and as a user.
func TestProbesFromOutside(t *testing.T) {
	t.Parallel()
	labtest.Need(t)
	const nobody = 65534
	for _, uid := range []uint32{0, nobody} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "probe", t.TempDir())
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var probes []model.Probe
		if err := json.Unmarshal(out, &probes); err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		checkProbes(t, probes)
	}
}
