package podside

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// Hello is the first line of Probe's output.
type Hello struct {
	Version string `json:"version"`
	Kernel  string `json:"kernel"`
	CPUs    int    `json:"cpus"`
	// Missing says why there is no usage; empty: there is.
	Missing string `json:"missing,omitempty"`
}

// Reading is the answer to a line: the pod's clocks, and what its container has
// used since it was made.
type Reading struct {
	Monotonic int64   `json:"mono"` // nanoseconds
	Wall      int64   `json:"wall"` // nanoseconds since 1970
	CPU       float64 `json:"cpu"`  // seconds
	Throttled float64 `json:"throttled"`
	Periods   float64 `json:"periods"`
	Memory    float64 `json:"memory"` // bytes
}

// Probe answers every line with a Reading, until the input ends.
func Probe(in io.Reader, out io.Writer, version string) error {
	group, err := findGroup("/sys/fs/cgroup")
	hello := Hello{Version: version, Kernel: kernel(), CPUs: cpus()}
	if err != nil {
		hello.Missing = err.Error()
	}
	if err = say(out, hello); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		r := group.read()
		r.Monotonic, r.Wall = sys.Monotonic(), time.Now().UnixNano()
		if err := say(out, r); err != nil {
			return err
		}
	}
	return lines.Err()
}

func kernel() string {
	b, err := sys.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

func cpus() int {
	all, err := sys.Affinity()
	if err != nil {
		return 0
	}
	return len(all)
}

// group is where the kernel accounts for the container, as it sees it itself:
// at the root of its control groups.
type group struct {
	usage, stat, memory string // files
	unit                float64
	throttledKey        string
	throttledUnit       float64
}

const (
	micro = 1e-6
	nano  = 1e-9
)

func findGroup(base string) (group, error) {
	v2 := group{
		stat: filepath.Join(base, "cpu.stat"), memory: filepath.Join(base, "memory.current"),
		unit: micro, throttledKey: "throttled_usec", throttledUnit: micro,
	}
	v1 := group{
		usage: filepath.Join(base, "cpuacct", "cpuacct.usage"), stat: filepath.Join(base, "cpu", "cpu.stat"),
		memory: filepath.Join(base, "memory", "memory.usage_in_bytes"),
		unit:   nano, throttledKey: "throttled_time", throttledUnit: nano,
	}
	for _, g := range []group{v2, v1} {
		if _, err := os.Stat(g.memory); err == nil {
			return g, nil
		}
	}
	return group{}, fmt.Errorf("the container does not see its own control group below %s", base)
}

func (g group) read() (r Reading) {
	if g.stat == "" {
		return r
	}
	stat := counters(g.stat)
	r.CPU = stat["usage_usec"] * micro
	if g.usage != "" {
		r.CPU = number(g.usage) * g.unit
	}
	r.Throttled, r.Periods = stat[g.throttledKey]*g.throttledUnit, stat["nr_throttled"]
	r.Memory = number(g.memory)
	return r
}

// counters reads a file of lines "name value".
func counters(path string) map[string]float64 {
	all := map[string]float64{}
	b, err := sys.ReadFile(path)
	if err != nil {
		return all
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = v
		}
	}
	return all
}

func number(path string) float64 {
	b, err := sys.ReadFile(path)
	if err != nil {
		return 0
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	if err != nil {
		return 0
	}
	return v
}
