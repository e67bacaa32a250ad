package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

// Probes tries what the lab and its layers need of this host, in throw-away
// namespaces, and says what is missing.
func (t *Target) Probes(ctx context.Context) []model.Probe {
	host := t.Host()
	probes := []model.Probe{probeGenerator(host), probeGroups(host), probeFiles()}
	if t.inside {
		return append(probes, probeKernel()...)
	}
	return append(probes, probeOutside(ctx)...)
}

// answerProbe tries what only works inside namespaces and ends the program, if
// that is what this process was started for.
func answerProbe() {
	h, inside := sys.Inside()
	if !inside || !h.Probe {
		return
	}
	_, err := sys.SettleInside()
	answer := []model.Probe{probed("lab", err)}
	if err == nil {
		answer = append(answer, probeKernel()...)
	}
	b, err := json.Marshal(answer)
	sys.Answer(b, err)
}

func probeOutside(ctx context.Context) []model.Probe {
	answerProbe()
	b, err := sys.ReexecProbe(ctx, sys.Handover{Rootless: sys.Rootless(), Probe: true})
	var probes []model.Probe
	if err == nil {
		err = json.Unmarshal(b, &probes)
	}
	if err != nil {
		return []model.Probe{probed("lab", fmt.Errorf("making the lab's namespaces: %w", err))}
	}
	return probes
}

// need is what a probe is for, and how to get it.
type need struct{ needed, hint string }

// needs tells them for every probe by name.
func needs() map[string]need {
	const modules = "load the kernel module, or use a kernel that has it"
	return map[string]need{
		"lab":              {"every study on this host", namespacesHint},
		"generator's CPU":  {"latency that is not the generator's own", "use a host, or an affinity, of two CPUs or more"},
		"control groups":   {"CPU and memory per component, limits", "as root nothing; else run below a delegated cgroup: systemd-run --user --scope -p Delegate=yes windtunnel ..."},
		"cpusets":          {"keeping programs that choose their own CPUs off the generator's", "enable the cpuset controller; without it the lab binds by affinity"},
		"open files":       {"sites of many pods", "raise the hard limit: ulimit -Hn 65536"},
		"epoll_pwait2":     {"sending on time to the microsecond", "use Linux 5.11 or newer"},
		"device veth":      {"every site", modules + ": veth"},
		"device bridge":    {"every site", modules + ": bridge"},
		"device vxlan":     {"the vxlan layer", modules + ": vxlan"},
		"device geneve":    {"the geneve layer", modules + ": geneve"},
		"device gre":       {"the gre layer", modules + ": ip_gre"},
		"device ipip":      {"the ipip layer", modules + ": ipip"},
		"device wireguard": {"the wireguard layer", modules + ": wireguard"},
		"device ifb":       {"shaping what comes in", modules + ": ifb"},
		"device tun":       {"user-space tunnels", "make /dev/net/tun readable and writable"},
		"links":            {"links with delay, jitter, loss or rate", modules + ": sch_netem and sch_prio, or nft_queue"},
		"queue netem":      {"links by the kernel itself; without it the lab's own delay line emulates them", modules + ": sch_netem"},
		"queue tbf":        {"links with a rate", modules + ": sch_tbf"},
		"nftables":         {"the nft-service layer, redirection to sidecars", modules + ": nf_tables, nft_chain_nat, nft_redir"},
	}
}

func probed(name string, err error) model.Probe {
	n := needs()[name]
	if err != nil {
		return model.Probe{Name: name, Detail: err.Error(), Hint: n.hint, Needed: n.needed}
	}
	return model.Probe{Name: name, OK: true, Detail: "works", Needed: n.needed}
}

func found(name, detail string, err error) model.Probe {
	p := probed(name, err)
	if p.OK {
		p.Detail = detail
	}
	return p
}

func probeGenerator(h model.Host) model.Probe {
	var err error
	if h.Cores < 2 { //nolint:mnd // one for the generator, one for the rest
		err = errors.New("there is one CPU for everything")
	}
	return found("generator's CPU", fmt.Sprintf("CPU %v; %v for everything else", h.GeneratorCPUs, h.OtherCPUs), err)
}

func probeGroups(h model.Host) model.Probe {
	groups, err := sys.FindCgroups()
	if err != nil {
		return probed("control groups", err)
	}
	detail := h.Cgroups + ": CPU, throttling and memory"
	if groups.Cpusets {
		detail += ", cpusets"
	}
	groups.RemoveParent()
	return found("control groups", detail, nil)
}

func probeFiles() model.Probe {
	const enough = 4096 // a thousand pods with a process each
	limit, err := sys.OpenFilesLimit()
	if err == nil && limit < enough {
		err = fmt.Errorf("at most %d files may be open", limit)
	}
	return found("open files", fmt.Sprintf("up to %d", limit), err)
}

// tryNFT makes and removes a table that redirects.
func tryNFT() error {
	const name = "windtunnel-probe"
	err := nft.Apply(nft.Table{Name: name, Chains: []nft.Chain{{
		Name: "out", Hook: nft.HookOutput,
		Rules: []nft.Rule{{If: nft.Match{TCP: true, DestinationPort: 1}, Count: true, Do: nft.Redirect(2)}},
	}}})
	return errors.Join(err, nft.Delete(name))
}

// probeKernel tries devices, queues and rules in a namespace of their own.
func probeKernel() []model.Probe {
	ns, err := sys.NewNetns()
	if err != nil {
		return []model.Probe{probed("lab", err)}
	}
	defer ns.Close() //nolint:errcheck // nothing was written to it
	try := func(name string, f func() error) model.Probe { return probed(name, ns.Do(f)) }
	probes := []model.Probe{try("epoll_pwait2", sys.TryEpollPwait2), try("nftables", tryNFT), try("device tun", sys.TryTun)}
	for _, kind := range []string{"veth", "bridge", "vxlan", "geneve", "gre", "ipip", "wireguard", "ifb"} {
		probes = append(probes, try("device "+kind, func() error { return sys.TryLink(kind) }))
	}
	probes = append(probes, probeLinkMeans())
	for _, kind := range []string{"netem", "tbf"} {
		probes = append(probes, try("queue "+kind, func() error { return sys.TryQdisc(kind) }))
	}
	return probes
}
