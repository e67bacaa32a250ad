package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed" // CoreDNS' manifests
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/build"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/pki"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/plan"
)

//go:embed coredns.yaml
var coreDNS string

// patience is for a busy machine: an idle one needs 10 to 20 s.
const patience = 3 * time.Minute

// await waits until the clusters are usable: nodes Ready, DNS, service accounts.
func (l Lab) await(ctx context.Context, want plan.Lab, built build.Result) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begun := time.Now()
	problems := make([]error, len(want.Clusters))
	var all sync.WaitGroup
	for i, c := range want.Clusters {
		all.Go(func() {
			problems[i] = l.awaitCluster(ctx, c, built)
			if problems[i] != nil {
				problems[i] = fmt.Errorf("cluster %s is not usable: %w\nThe logs are in %s/units/*/log; `kubelab down` and `kubelab up` start anew",
					c.Name, problems[i], l.State)
				return
			}
			l.Log.Info("usable", "cluster", c.Name, "nodes", len(c.Nodes), "after", time.Since(begun).Round(100*time.Millisecond))
		})
	}
	all.Wait()
	return errors.Join(problems...)
}

func (l Lab) awaitCluster(ctx context.Context, c plan.Cluster, built build.Result) error {
	api, err := l.client(c)
	if err != nil {
		return err
	}
	defer api.http.CloseIdleConnections()
	if err := until(ctx, "the API server", func() error { return api.get(ctx, "/readyz", nil) }); err != nil {
		return err
	}
	manifests := strings.ReplaceAll(coreDNS, "@DNS@", c.DNS.String())
	if err := until(ctx, "CoreDNS' manifests", func() error { return l.apply(ctx, c, built, manifests) }); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		started, err := os.Stat(l.unit(n.Name, "pid"))
		if err != nil {
			return fmt.Errorf("looking when %s was started: %w", n.Name, err)
		}
		if err = until(ctx, "node "+n.Name, func() error { return api.nodeReady(ctx, n.Name, started.ModTime()) }); err != nil {
			return err
		}
	}
	if err := until(ctx, "the default service account", func() error {
		return api.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
	}); err != nil {
		return err
	}
	return until(ctx, "CoreDNS", func() error { return api.dnsReady(ctx) })
}

func until(ctx context.Context, what string, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		case <-time.After(150 * time.Millisecond):
		}
	}
}

func (l Lab) apply(ctx context.Context, c plan.Cluster, built build.Result, manifests string) error {
	command := exec.CommandContext(ctx, filepath.Join(built.Bin, "kubectl"), "--kubeconfig", l.Kubeconfig(), "--context", c.Name,
		"apply", "--server-side", "--force-conflicts", "-f", "-")
	command.Stdin = strings.NewReader(manifests)
	// kubectl keeps a cache of what an API server offers; the lab leaves nothing behind.
	command.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(l.State, "kubectl"))
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Run(); err != nil {
		return fmt.Errorf("kubectl apply: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

type client struct {
	server string
	http   *http.Client
}

func (l Lab) client(c plan.Cluster) (client, error) {
	ca, err := pki.Read(l.pki(c), pki.CA)
	if err != nil {
		return client{}, err
	}
	admin, err := pki.Read(l.pki(c), pki.Admin)
	if err != nil {
		return client{}, err
	}
	own, err := tls.X509KeyPair(admin.Cert, admin.Key)
	if err != nil {
		return client{}, fmt.Errorf("reading the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	return client{server: c.Server(), http: &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}},
	}}, nil
}

func (c client) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+path, nil)
	if err != nil {
		return fmt.Errorf("asking for %s: %w", path, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("asking for %s: %w", path, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking for %s: %s", path, response.Status)
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// nodeReady also asks whether the node's kubelet was heard of since its start:
// of a node that was killed a moment ago the API server still says Ready.
func (c client) nodeReady(ctx context.Context, name string, since time.Time) error {
	var lease struct{ Spec struct{ RenewTime time.Time } }
	if err := c.get(ctx, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+name, &lease); err != nil {
		return err
	}
	if lease.Spec.RenewTime.Before(since) {
		return errors.New("its kubelet has not said anything since its start")
	}
	var node struct {
		Status struct {
			Conditions []struct {
				Type, Status, Message string
			}
		}
	}
	if err := c.get(ctx, "/api/v1/nodes/"+name, &node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" && condition.Status == "True" {
			return nil
		}
		if condition.Type == "Ready" {
			return fmt.Errorf("not Ready: %s", condition.Message)
		}
	}
	return errors.New("it has no condition Ready yet")
}

func (c client) dnsReady(ctx context.Context) error {
	var deployment struct {
		Status struct{ AvailableReplicas int }
	}
	if err := c.get(ctx, "/apis/apps/v1/namespaces/kube-system/deployments/coredns", &deployment); err != nil {
		return err
	}
	if deployment.Status.AvailableReplicas < 1 {
		return errors.New("no pod of it is available")
	}
	return nil
}
