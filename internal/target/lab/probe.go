package lab

import (
	"context"
	"fmt"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Probes tries what the lab needs. Namespaces are tried by making some, which
// end with the process that was in them.
func (t *Target) Probes(ctx context.Context) []model.Probe {
	cpus, err := sys.Affinity()
	probes := []model.Probe{
		found("CPUs", "a generator that disturbs nothing", err, strconv.Itoa(len(cpus))+" usable", "two or more CPUs give the generator one of its own"),
	}
	err = sys.TryNamespaces(ctx)
	probes = append(probes, found("namespaces", "every study with target lab", err, "network, pid, mount, ipc and uts namespaces can be made",
		"run as root, or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000"))
	groups, err := sys.FindCgroups()
	detail := ""
	if err == nil {
		detail = fmt.Sprintf("version %d", groups.Version)
	}
	probes = append(probes, found("control groups", "CPU and memory figures, limits", err, detail,
		"run as root, or have a cgroup delegated; without one these figures say \"not available here\""))
	err = sys.PrivateDir(t.stateDir)
	return append(probes, found("state folder", "every study with target lab", err, t.stateDir, "make it writable for this user only"))
}

func found(name, needed string, err error, detail, hint string) model.Probe {
	p := model.Probe{Name: name, OK: err == nil, Detail: detail, Needed: needed}
	if err != nil {
		p.Detail, p.Hint = err.Error(), hint
	}
	return p
}
