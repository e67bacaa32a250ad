package labtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/sys/bpf"
	"github.com/windtunnel/windtunnel/internal/sys/nft"
)

// State is what is configured and what runs in every node and pod of a site:
// a layer that has been removed must leave it as it was. Tests diff two.
func State(t *testing.T, site model.Site) map[string][]string {
	t.Helper()
	state := map[string][]string{}
	for _, n := range site.Topology().Nodes() {
		state[n.Name] = stateOf(t, site, n.Name)
		for _, p := range n.Pods {
			state[p.Name] = stateOf(t, site, p.Name)
		}
	}
	return state
}

func stateOf(t *testing.T, site model.Site, name string) []string {
	t.Helper()
	var lines []string
	In(t, site, name, func() error {
		var err error
		if lines, err = sys.Describe(); err != nil {
			return err
		}
		programs, err := bpf.Describe()
		if err != nil {
			return err
		}
		lines = append(lines, programs...)
		tables, err := nft.Tables()
		if err != nil {
			return err
		}
		for _, table := range tables {
			live, failure := nft.Read(table)
			if failure != nil {
				return failure
			}
			lines = append(lines, fmt.Sprintf("nftables table %s of %d chains", table, len(live.Chains)))
		}
		here, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		processes, err := processesIn(here)
		lines = append(lines, processes...)
		return err
	})
	return lines
}

// processesIn lists the processes of a network namespace by their programs.
func processesIn(namespace string) ([]string, error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []string
	for _, p := range all {
		in, ended := os.Readlink(filepath.Join(p, "ns", "net"))
		if ended != nil || in != namespace {
			continue
		}
		program, ended := os.Readlink(filepath.Join(p, "exe"))
		if ended == nil {
			found = append(found, "process "+program)
		}
	}
	slices.Sort(found)
	return found, nil
}
