package lab

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

// describeHost records what the trials run on. The generator gets the last CPU
// for itself wherever there are two or more.
func describeHost(cpus []int) model.Host {
	h := model.Host{
		OS: osRelease(), Kernel: readLine("/proc/sys/kernel/osrelease"), Arch: runtime.GOARCH,
		CPU: cpuModel(), Cores: len(cpus), MemoryBytes: memTotal(), Rootless: rootless(),
		GeneratorCPUs: cpus, OtherCPUs: cpus,
	}
	if strings.Contains(readFile("/proc/cpuinfo"), "hypervisor") {
		h.Virtualised = "yes"
	}
	if n := len(cpus); n >= 2 {
		h.GeneratorCPUs, h.OtherCPUs = cpus[n-1:], cpus[:n-1]
	} else {
		h.Notes = append(h.Notes, "one CPU only: the generator shares it with what it measures")
	}
	if len(h.OtherCPUs) == 1 && len(cpus) >= 2 {
		h.Notes = append(h.Notes, "app, proxies and kernel work share one CPU")
	}
	h.Notes = append(h.Notes, "softirq time is charged to whichever process it interrupts, unless the kernel has IRQ time accounting")
	return h
}

func rootless() bool {
	fields := strings.Fields(readFile("/proc/self/uid_map"))
	return len(fields) == 3 && fields[1] != "0"
}

func readFile(path string) string {
	b, err := os.ReadFile(path)
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
