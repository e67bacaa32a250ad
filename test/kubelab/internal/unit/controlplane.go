package unit

import (
	"strconv"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/pki"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/plan"
)

// Names of the processes that tests stop and start.
const (
	APIServer   = "kube-apiserver"
	Etcd        = "etcd"
	Controllers = "kube-controller-manager"
	Scheduler   = "kube-scheduler"
	Kubelet     = "kubelet"
	Proxy       = "kube-proxy"
	Containerd  = "containerd"
)

const etcdURL = "http://127.0.0.1:2379"

// ControlPlane is a cluster's control plane. The certificates are below dir.
func ControlPlane(lab plan.Lab, c plan.Cluster, dir string) (Spec, error) {
	files := map[string][]byte{}
	for _, name := range []string{pki.CA, pki.APIServer, pki.Admin, pki.ServiceAccounts} {
		pair, err := pki.Read(dir, name)
		if err != nil {
			return Spec{}, err
		}
		files[name+".crt"], files[name+".key"] = pair.Cert, pair.Key
	}
	for _, name := range []string{pki.Controllers, pki.Scheduler} {
		config, err := access(dir, name, c)
		if err != nil {
			return Spec{}, err
		}
		files[name+".kubeconfig"] = config
	}
	return Spec{
		Name:      c.Name,
		Namespace: lab.Namespace(c.Name),
		Cgroup:    lab.Name + "/" + c.Name,
		Files:     files,
		Processes: []Process{
			{Name: Etcd, Ready: "127.0.0.1:2379", Args: []string{
				Etcd, "--name", c.Name, "--data-dir", "/var/lib/etcd", "--unsafe-no-fsync", "--log-level", "warn",
				"--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
				"--listen-peer-urls", "http://127.0.0.1:2380", "--initial-advertise-peer-urls", "http://127.0.0.1:2380",
				"--initial-cluster", c.Name + "=http://127.0.0.1:2380",
			}},
			// The controller manager ends when it finds no API server: it must come after.
			{Name: APIServer, Args: apiServer(c), Ready: c.Server() + "/readyz"},
			{Name: Controllers, Args: []string{
				Controllers, "--kubeconfig", Conf + "/" + pki.Controllers + ".kubeconfig",
				"--authentication-kubeconfig", Conf + "/" + pki.Controllers + ".kubeconfig",
				"--authorization-kubeconfig", Conf + "/" + pki.Controllers + ".kubeconfig",
				"--bind-address", "127.0.0.1", "--root-ca-file", Conf + "/ca.crt",
				"--service-account-private-key-file", Conf + "/sa.key",
				"--cluster-signing-cert-file", Conf + "/ca.crt", "--cluster-signing-key-file", Conf + "/ca.key",
				"--use-service-account-credentials=true", "--allocate-node-cidrs=false", "--leader-elect=false", "--profiling=false",
			}},
			{Name: Scheduler, Args: []string{
				Scheduler, "--kubeconfig", Conf + "/" + pki.Scheduler + ".kubeconfig",
				"--authentication-kubeconfig", Conf + "/" + pki.Scheduler + ".kubeconfig",
				"--authorization-kubeconfig", Conf + "/" + pki.Scheduler + ".kubeconfig",
				"--bind-address", "127.0.0.1", "--leader-elect=false", "--profiling=false",
			}},
		},
	}, nil
}

func apiServer(c plan.Cluster) []string {
	return []string{
		APIServer, "--etcd-servers", etcdURL, "--bind-address", "0.0.0.0", "--secure-port", strconv.Itoa(plan.APIPort),
		"--advertise-address", c.Router.Addr().String(),
		"--tls-cert-file", Conf + "/apiserver.crt", "--tls-private-key-file", Conf + "/apiserver.key", "--client-ca-file", Conf + "/ca.crt",
		"--service-cluster-ip-range", c.Services.String(),
		"--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file", Conf + "/sa.crt", "--service-account-signing-key-file", Conf + "/sa.key",
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction", "--allow-privileged=true",
		"--kubelet-client-certificate", Conf + "/admin.crt", "--kubelet-client-key", Conf + "/admin.key",
		"--kubelet-preferred-address-types", "InternalIP",
		// There is no kube-proxy here: webhooks' Services are resolved to pods by the API server itself.
		"--enable-aggregator-routing=true", "--profiling=false", "--v=1",
	}
}

func access(dir, name string, c plan.Cluster) ([]byte, error) {
	ca, err := pki.Read(dir, pki.CA)
	if err != nil {
		return nil, err
	}
	user, err := pki.Read(dir, name)
	if err != nil {
		return nil, err
	}
	return Kubeconfig(Access{Context: c.Name, Server: c.Server(), CA: ca.Cert, User: user})
}
