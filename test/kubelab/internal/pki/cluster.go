package pki

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/plan"
)

// The names of a cluster's certificates. A kubelet's is Kubelet and its node's name.
const (
	CA              = "ca"
	APIServer       = "apiserver"
	Admin           = "admin"
	Controllers     = "controllers"
	Scheduler       = "scheduler"
	Proxy           = "proxy"
	ServiceAccounts = "sa"
	Kubelet         = "kubelet-"
)

// Ensure makes a cluster's folder of certificates, if there is none yet. A
// folder is complete or absent, for it gets its name when it is complete.
func Ensure(dir string, c plan.Cluster, now time.Time) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	half := dir + ".half"
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("removing half-made certificates: %w", err)
	}
	if err := os.MkdirAll(half, 0o700); err != nil {
		return fmt.Errorf("making a folder for certificates: %w", err)
	}
	pairs, err := cluster(c, now)
	if err != nil {
		return err
	}
	for name, pair := range pairs {
		if err := pair.Write(half, name); err != nil {
			return err
		}
	}
	if err := os.Rename(half, dir); err != nil {
		return fmt.Errorf("naming the folder of certificates: %w", err)
	}
	return nil
}

func cluster(c plan.Cluster, now time.Time) (map[string]Pair, error) {
	ca, err := New("kubelab-"+c.Name, now)
	if err != nil {
		return nil, err
	}
	pairs := map[string]Pair{}
	add := func(name string, pair Pair, e error) {
		pairs[name] = pair
		if err == nil {
			err = e
		}
	}
	own, e := ca.Pair()
	add(CA, own, e)
	api, e := ca.Server("kube-apiserver",
		[]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"},
		[]net.IP{net.IPv4(127, 0, 0, 1), c.API.AsSlice(), c.Router.Addr().AsSlice()})
	add(APIServer, api, e)
	sa, e := SigningKey()
	add(ServiceAccounts, sa, e)
	clients := []struct{ name, user, group string }{
		{Admin, "admin", "system:masters"},
		{Controllers, "system:kube-controller-manager", ""},
		{Scheduler, "system:kube-scheduler", ""},
		{Proxy, "system:kube-proxy", ""},
	}
	for _, n := range c.Nodes {
		clients = append(clients, struct{ name, user, group string }{Kubelet + n.Name, "system:node:" + n.Name, "system:nodes"})
	}
	for _, client := range clients {
		var groups []string
		if client.group != "" {
			groups = append(groups, client.group)
		}
		pair, e := ca.Client(client.user, groups...)
		add(client.name, pair, e)
	}
	return pairs, err
}
