package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestAddressesDoNotOverlap(t *testing.T) {
	t.Parallel()
	lab, err := New("kubelab", []int{2, 1, 9, 1})
	if err != nil {
		t.Fatal(err)
	}
	var wide, hosts []netip.Prefix
	for _, c := range lab.Clusters {
		wide = append(wide, c.Subnet, c.Pods, c.Services, c.WAN.Near.Masked(), c.Host.Near.Masked())
		if !c.Services.Contains(c.API) || !c.Services.Contains(c.DNS) || !c.Subnet.Contains(c.Router.Addr()) {
			t.Errorf("cluster %s: %+v", c.Name, c)
		}
		hosts = append(hosts, c.Router)
		for _, n := range c.Nodes {
			hosts = append(hosts, n.Address)
			if !c.Pods.Contains(n.Pods.Addr()) || !c.Subnet.Contains(n.Address.Addr()) {
				t.Errorf("node %s is outside of its cluster: %+v", n.Name, n)
			}
		}
	}
	for i, one := range wide {
		for _, other := range wide[i+1:] {
			if one.Overlaps(other) {
				t.Errorf("%s overlaps %s", one, other)
			}
		}
	}
	for i, one := range hosts {
		if slices.Contains(hosts[i+1:], one) {
			t.Errorf("%s is given twice", one)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	lab, err := New("kubelab", []int{2, 1})
	if err != nil {
		t.Fatal(err)
	}
	want := "kubelab-wan kubelab-a kubelab-a1 kubelab-a2 kubelab-b kubelab-b1"
	if got := strings.Join(lab.Namespaces(), " "); got != want {
		t.Errorf("namespaces %s, want %s", got, want)
	}
	b, err := lab.Cluster("b")
	if err != nil || b.Server() != "https://172.30.2.1:6443" || len(lab.HostLink(b)) > 15 {
		t.Errorf("cluster b: %v, %v", b, err)
	}
	if _, err := lab.Cluster("c"); err == nil {
		t.Error("there is no cluster c")
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := New("Kube-Lab", []int{0, 10, 1, 1, 1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{`"Kube-Lab"`, "5 clusters", "cluster 1 with 0", "cluster 2 with 10"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
}
