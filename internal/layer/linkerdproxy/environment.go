package linkerdproxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"strconv"
	"strings"
)

// trustDomain ends every identity.
const trustDomain = "cluster.local"

// caName is the common name of a deployment's CA, and its DNS name.
const caName = "identity.linkerd." + trustDomain

// identity is that of a service account, as Linkerd writes it.
func identity(role string) string {
	return role + ".default.serviceaccount.identity.linkerd." + trustDomain
}

// credentials are what a proxy asks for its certificate with: a key, a request
// for its identity, and a token, which Linkerd would check with Kubernetes. Here
// a proxy is known by the pod from whose loopback it asks.
func credentials(name string) (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of %s: %w", name, err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key of %s: %w", name, err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}, key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate request of %s: %w", name, err)
	}
	return map[string][]byte{"key.p8": pkcs8, "csr.der": csr, "token": []byte("none")}, nil
}

// environment is a proxy's whole configuration: Linkerd's defaults, as its
// injector writes them.
func (l *Layer) environment(sc *sidecar) []string {
	const p = "LINKERD2_PROXY_"
	control := fmt.Sprintf("127.0.0.1:%d", portControl)
	workload := fmt.Sprintf(`{"ns":"default","pod":%q}`, sc.Pod.Name())
	ports := make([]string, 0, len(sc.ports))
	for _, port := range sc.ports {
		ports = append(ports, strconv.Itoa(int(port)))
	}
	all := []string{
		p + "LOG=warn,linkerd=info",
		p + "CORES=" + strconv.Itoa(l.config.Concurrency),
		p + "OUTBOUND_LISTEN_ADDR=" + fmt.Sprintf("127.0.0.1:%d", portOutbound),
		p + "OUTBOUND_LISTEN_ADDRS=" + fmt.Sprintf("127.0.0.1:%d", portOutbound),
		p + "INBOUND_LISTEN_ADDR=" + fmt.Sprintf("0.0.0.0:%d", portInbound),
		p + "CONTROL_LISTEN_ADDR=" + fmt.Sprintf("127.0.0.1:%d", portTap),
		p + "ADMIN_LISTEN_ADDR=" + fmt.Sprintf("127.0.0.1:%d", portAdmin),
		p + "DESTINATION_SVC_ADDR=" + control,
		p + "DESTINATION_CONTEXT=" + workload,
		p + "DESTINATION_PROFILE_SUFFIXES=svc." + trustDomain + ".",
		p + "DESTINATION_PROFILE_NETWORKS=10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16",
		p + "POLICY_SVC_ADDR=" + control,
		p + "POLICY_WORKLOAD=" + workload,
		p + "POLICY_CLUSTER_NETWORKS=10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16",
		p + "INBOUND_IPS=" + sc.Pod.Addr().String(),
		p + "INBOUND_DEFAULT_POLICY=" + string(l.config.Policy),
		p + "INBOUND_CONNECT_TIMEOUT=100ms",
		p + "OUTBOUND_CONNECT_TIMEOUT=1000ms",
		p + "INBOUND_ACCEPT_KEEPALIVE=10000ms",
		p + "OUTBOUND_CONNECT_KEEPALIVE=10000ms",
		p + "SHUTDOWN_GRACE_PERIOD=1s",
		p + "IDENTITY_DIR={dir}",
		p + "IDENTITY_TOKEN_FILE={dir}/token",
		p + "IDENTITY_TRUST_ANCHORS=" + string(l.ca.PEM()),
		p + "IDENTITY_LOCAL_NAME=" + identity(sc.Role),
		p + "IDENTITY_SVC_ADDR=" + control,
	}
	if len(ports) > 0 {
		all = append(all, p+"INBOUND_PORTS="+strings.Join(ports, ","))
	}
	return all
}
