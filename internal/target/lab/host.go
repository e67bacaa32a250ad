package lab

import (
	"compress/gzip"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// splitCPUs gives the generator the last CPU wherever there are two or more.
func splitCPUs(cpus []int) (generator, others []int) {
	if n := len(cpus); n >= 2 {
		return cpus[n-1:], cpus[:n-1]
	}
	return cpus, cpus
}

// describeHost records what the trials run on, and what that does to figures.
func describeHost(cpus []int, rootless bool) model.Host {
	h := model.Host{
		OS: osRelease(), Kernel: readLine("/proc/sys/kernel/osrelease"), Arch: runtime.GOARCH,
		CPU: cpuModel(), Cores: len(cpus), MemoryBytes: memTotal(), Rootless: rootless,
	}
	h.GeneratorCPUs, h.OtherCPUs = splitCPUs(cpus)
	h.Congestion = readLine("/proc/sys/net/ipv4/tcp_congestion_control")
	if usual := "cubic"; h.Congestion != "" && h.Congestion != usual {
		h.Notes = append(h.Notes, fmt.Sprintf("TCP's congestion control is %s, most hosts have %s: how connections fill a link, recover and share differs", h.Congestion, usual))
	}
	if len(cpus) < 2 {
		h.Notes = append(h.Notes, "one CPU only: the generator shares it with what it measures")
	} else if len(h.OtherCPUs) == 1 {
		h.Notes = append(h.Notes, "app, proxies, samplers and the runner share one CPU")
	}
	if sys.Virtual() {
		h.Virtualised = "yes"
		if vendor := readLine("/sys/class/dmi/id/sys_vendor"); vendor != "" {
			h.Virtualised = vendor
		}
		h.Notes = append(h.Notes, "virtual machine: the hypervisor may take CPU time (recorded as steal) and share caches and links with others")
	}
	if !irqTimeAccounting(h.Kernel) {
		h.Notes = append(h.Notes, "no IRQ time accounting known: softirq work is charged to whichever process it interrupts")
	}
	if rootless {
		h.Notes = append(h.Notes, "rootless: in a user namespace")
	}
	return h
}

// irqTimeAccounting says whether the kernel is known to account for interrupts
// apart from the processes that they interrupt.
func irqTimeAccounting(release string) bool {
	const option = "CONFIG_IRQ_TIME_ACCOUNTING=y"
	if strings.Contains(readFile("/boot/config-"+release), option) {
		return true
	}
	r, err := gzip.NewReader(strings.NewReader(readFile("/proc/config.gz")))
	if err != nil {
		return false
	}
	const limit = 4 << 20
	config, err := io.ReadAll(io.LimitReader(r, limit))
	return err == nil && strings.Contains(string(config), option)
}

func readFile(path string) string {
	b, err := sys.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

func readLine(path string) string { return strings.TrimSpace(readFile(path)) }

func osRelease() string {
	for line := range strings.Lines(readFile("/etc/os-release")) {
		if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(name), `"`)
		}
	}
	return "Linux"
}

func cpuModel() string {
	for line := range strings.Lines(readFile("/proc/cpuinfo")) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func memTotal() uint64 {
	fields := strings.Fields(readFile("/proc/meminfo"))
	if len(fields) < 2 {
		return 0
	}
	kib, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
