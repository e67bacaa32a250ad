package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/cgroup"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/image"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/plan"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/proc"
)

// Load imports an archive of images into every node. An OCI layout often holds
// a tag only: then it needs a name.
func (l Lab) Load(ctx context.Context, path, name string) error {
	r, err := l.read()
	if err != nil {
		return err
	}
	archive, err := image.Read(path)
	if err != nil {
		return err
	}
	args := []string{"ctr", "--namespace", "k8s.io", "images", "import", "--local"}
	if archive.OCI {
		if name == "" && len(archive.Names) == 1 && strings.ContainsAny(archive.Names[0], "/:") {
			name = archive.Names[0]
		}
		if name == "" {
			return fmt.Errorf("%s is an OCI layout with the names %q: say which name the image gets: `kubelab load %s NAME:TAG`", path, archive.Names, path)
		}
		args = append(args, "--index-name", name)
	}
	args = append(args, "-")
	for _, c := range r.Plan.Clusters {
		for _, n := range c.Nodes {
			if err := l.load(ctx, n, path, args); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l Lab) load(ctx context.Context, n plan.Node, path string, args []string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening an image: %w", err)
	}
	defer func() { _ = file.Close() }()
	command, err := l.Inside(ctx, n.Name, args...)
	if err != nil {
		return err
	}
	command.Stdin = file
	said, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("importing %s into %s: %w: %s", path, n.Name, err, strings.TrimSpace(string(said)))
	}
	l.Log.Info("loaded", "node", n.Name, "archive", path)
	return nil
}

// Kubectl is a call of kubectl with the lab's kubeconfig.
func (l Lab) Kubectl(ctx context.Context, args ...string) (*exec.Cmd, error) {
	r, err := l.read()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, filepath.Join(r.Built.Bin, "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+l.Kubeconfig(), "KUBECACHEDIR="+filepath.Join(l.State, "kubectl"))
	return command, nil
}

// Status writes what runs.
func (l Lab) Status(w io.Writer) error {
	r, err := l.read()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	_, err = fmt.Fprintln(table, "UNIT\tNAMESPACE\tADDRESS\tPID 1\tPROCESSES\tLOGS")
	problems := []error{err}
	row := func(name, address string) {
		first, processes := "-", "-"
		if id, err := l.first(name); err == nil {
			inside, err := proc.Inside(id, "")
			problems = append(problems, err)
			first, processes = strconv.Itoa(id.PID), strconv.Itoa(len(inside))
		}
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", name, r.Plan.Namespace(name), address, first, processes, l.unit(name, "log"))
		problems = append(problems, err)
	}
	for _, c := range r.Plan.Clusters {
		row(c.Name, c.Server())
		for _, n := range c.Nodes {
			row(n.Name, n.Address.Addr().String())
		}
	}
	problems = append(problems, table.Flush())
	return errors.Join(problems...)
}

// Left lists what a lab has left on this host; nothing is good.
func (l Lab) Left() ([]string, error) {
	var left []string
	groups, err := cgroup.Find()
	if err != nil {
		return nil, err
	}
	ids, err := l.processes(groups)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if id.Alive() {
			left = append(left, fmt.Sprintf("process %d", id.PID))
		}
	}
	more, err := leftOver(l.Name, groups)
	if err != nil {
		return nil, err
	}
	left = append(left, more...)
	if _, err := os.Stat(l.State); err == nil {
		left = append(left, "folder "+l.State)
	}
	return left, nil
}
