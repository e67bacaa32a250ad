package lab

import (
	"fmt"
	"os"
	"strings"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/cgroup"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/network"
)

// leftOver lists what carries the lab's name: namespaces, devices, control
// groups and mounts.
func leftOver(name string, groups cgroup.Tree) ([]string, error) {
	namespaces, devices, err := network.Left(name)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, n := range namespaces {
		left = append(left, "network namespace "+n)
	}
	for _, d := range devices {
		left = append(left, "network device "+d)
	}
	for _, dir := range groups.Left(name) {
		left = append(left, "control group "+dir)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.Contains(fields[4], "/"+name) {
			left = append(left, "mount "+fields[4])
		}
	}
	return left, nil
}
