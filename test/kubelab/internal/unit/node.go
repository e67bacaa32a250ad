package unit

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/pki"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/plan"
)

// Host is what a node's files depend on.
type Host struct {
	Runc string // the path of runc
	// OOMScores says that this host lets root lower OOM scores (CAP_SYS_RESOURCE).
	OOMScores bool
	// Images are the names of the files in Images.
	Images []string
}

const socket = "/run/containerd/containerd.sock"

// Node is a node of a cluster.
func Node(lab plan.Lab, c plan.Cluster, n plan.Node, dir string, host Host) (Spec, error) {
	files, err := nodeFiles(lab, c, n, dir, host)
	if err != nil {
		return Spec{}, err
	}
	processes := []Process{{Name: Containerd, Args: []string{Containerd, "--config", Conf + "/containerd.toml"}, Ready: socket}}
	for _, image := range host.Images {
		processes = append(processes, Process{
			Name: "import", Once: true,
			Args: []string{"ctr", "--namespace", "k8s.io", "images", "import", "--local", Images + "/" + image},
		})
	}
	processes = append(processes,
		// Without an API server the kubelet would try again later and later.
		Process{Name: "api", Ready: c.Server() + "/readyz"},
		Process{Name: Kubelet, Args: []string{
			Kubelet, "--config", Conf + "/kubelet.json", "--kubeconfig", Conf + "/kubelet.kubeconfig",
			"--hostname-override", n.Name, "--node-ip", n.Address.Addr().String(), "--cert-dir", "/var/lib/kubelet/pki", "--v=1",
		}},
		Process{Name: Proxy, Args: []string{Proxy, "--config", Conf + "/kube-proxy.json"}},
	)
	return Spec{
		Name:      n.Name,
		Namespace: lab.Namespace(n.Name),
		Cgroup:    lab.Name + "/" + n.Name + "/sys",
		Files:     files,
		Processes: processes,
	}, nil
}

func nodeFiles(lab plan.Lab, c plan.Cluster, n plan.Node, dir string, host Host) (map[string][]byte, error) {
	files := map[string][]byte{
		"containerd.toml": containerdConfig(host),
		"resolv.conf":     []byte("nameserver " + c.DNS.String() + "\n"),
	}
	ca, err := pki.Read(dir, pki.CA)
	if err != nil {
		return nil, err
	}
	files["ca.crt"] = ca.Cert
	for file, name := range map[string]string{"kubelet.kubeconfig": pki.Kubelet + n.Name, "kube-proxy.kubeconfig": pki.Proxy} {
		if files[file], err = access(dir, name, c); err != nil {
			return nil, err
		}
	}
	for file, value := range map[string]any{
		"kubelet.json":        kubeletConfig(lab, c, n),
		"kube-proxy.json":     proxyConfig(c, n),
		"cni/10-ptp.conflist": cniConfig(n),
	} {
		if files[file], err = json.MarshalIndent(value, "", "  "); err != nil {
			return nil, fmt.Errorf("writing %s: %w", file, err)
		}
	}
	return files, nil
}

type object = map[string]any

func kubeletConfig(lab plan.Lab, c plan.Cluster, n plan.Node) object {
	return object{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"failCgroupV1":             false,
		"failSwapOn":               false,
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               "/" + lab.Name + "/" + n.Name,
		"containerRuntimeEndpoint": "unix://" + socket,
		"authentication": object{
			"anonymous": object{"enabled": false},
			"webhook":   object{"enabled": true},
			"x509":      object{"clientCAFile": Conf + "/ca.crt"},
		},
		"authorization":               object{"mode": "Webhook"},
		"evictionHard":                object{"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
		"imageGCHighThresholdPercent": 99,
		"imageGCLowThresholdPercent":  98,
		"resolvConf":                  Conf + "/resolv.conf",
		"clusterDomain":               "cluster.local",
		"clusterDNS":                  []string{c.DNS.String()},
		"nodeStatusUpdateFrequency":   "5s",
		"syncFrequency":               "10s",
		"volumePluginDir":             "/var/lib/kubelet/volume-plugins",
		"maxPods":                     110,
	}
}

func proxyConfig(c plan.Cluster, n plan.Node) object {
	return object{
		"apiVersion":       "kubeproxy.config.k8s.io/v1alpha1",
		"kind":             "KubeProxyConfiguration",
		"mode":             "nftables",
		"hostnameOverride": n.Name,
		"clientConnection": object{"kubeconfig": Conf + "/kube-proxy.kubeconfig"},
		"detectLocalMode":  "ClusterCIDR",
		"clusterCIDR":      c.Pods.String(),
		// These are the whole host's: leave them alone.
		"conntrack": object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
}

// cniConfig gives every pod a routed link to its node. A bridge would need
// br_netfilter for a Service between two pods of one node. Without masquerading
// pods see each other's addresses, across clusters too.
func cniConfig(n plan.Node) object {
	return object{
		"cniVersion": "1.0.0",
		"name":       "pods",
		"plugins": []object{
			{"type": "ptp", "ipMasq": false, "ipam": object{
				"type":   "host-local",
				"ranges": [][]object{{{"subnet": n.Pods.String()}}},
				"routes": []object{{"dst": "0.0.0.0/0"}},
			}},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}
}

func containerdConfig(host Host) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `version = 3
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "local.test/pause:1"

[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE runc could not lower a container's score, and would fail.
  restrict_oom_score_adj = %t

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["%s/cni"]
  conf_dir = "%s/cni"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    SystemdCgroup = false
    BinaryName = "%s"
`, !host.OOMScores, Bin, Conf, host.Runc)
	return []byte(b.String())
}
