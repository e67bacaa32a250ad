//go:build e2e

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/image"
	"github.com/windtunnel/windtunnel/test/kubelab/internal/pki"
)

// e2e is a lab of two clusters with a name of its own.
type e2e struct {
	binary string
	env    []string
}

// TestE2E starts a lab, uses what the tests of the kube target need of it, and
// removes it. Its parts depend on each other: they run in order.
func TestE2E(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a lab")
	}
	e := e2e{binary: os.Getenv("KUBELAB_BINARY"), env: append(os.Environ(), "KUBELAB_NAME=kle2e", "KUBELAB_NODES=2,1", "KUBELAB_SOURCE=.")}
	if e.binary == "" {
		t.Fatal("KUBELAB_BINARY is not set: run `make e2e-kubelab`")
	}
	e.kubelab(t, "down")
	e.kubelab(t, "build")
	loopback(t)
	unusual(t)
	before := host(t)
	t.Cleanup(func() { e.kubelab(t, "down") })
	begun := time.Now()
	e.kubelab(t, "up")
	t.Logf("usable after %s", time.Since(begun).Round(100*time.Millisecond))

	steps := []struct {
		name string
		run  func(*testing.T)
	}{
		{"nodes", e.nodes},
		{"deployments", e.deployments},
		{"services", e.services},
		{"across clusters", e.across},
		{"logs and port-forward", e.streams},
		{"summary", e.summary},
		{"webhook", e.webhook},
		{"pod security", e.podSecurity},
		{"quota", e.quota},
		{"server-side apply", e.apply},
		{"load", e.load},
		{"pause", e.pause},
		{"again", e.again},
		{"repair of a node", e.repairNode},
		{"repair of a control plane", e.repairControlPlane},
		{"repair of a network namespace", e.repairNamespace},
	}
	for _, s := range steps {
		if !t.Run(s.name, s.run) {
			t.Fatal("what follows needs it")
		}
	}

	changed(t)
	begun = time.Now()
	e.kubelab(t, "down")
	t.Logf("down after %s", time.Since(begun).Round(100*time.Millisecond))
	e.kubelab(t, "left")
	e.interrupt(t)
	e.kubelab(t, "down")
	e.kubelab(t, "left")
	if after := host(t); after != before {
		t.Errorf("the host was\n%s\nand is\n%s", before, after)
	}
}

// loopback sets up the loopback device of this test's network namespace, for
// kubectl port-forward.
func loopback(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// unusual gives a kernel setting a value that no kubelet gives it, so that it
// shows whether the setting comes back. Another lab may run on this host.
func unusual(t *testing.T) {
	t.Helper()
	const file = "/proc/sys/kernel/panic"
	old, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte("7"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, old, 0o644); err != nil {
			t.Error(err)
		}
	})
}

// changed says whether the lab has changed a setting: else nothing came back.
func changed(t *testing.T) {
	t.Helper()
	if now, err := os.ReadFile("/proc/sys/kernel/panic"); err != nil || strings.TrimSpace(string(now)) == "7" {
		t.Errorf("the kubelets did not set kernel/panic: %q, %v", now, err)
	}
}

// host is what a lab could change on this host, beside what `kubelab left` lists.
func host(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
		"kernel/keys/root_maxbytes", "net/ipv4/ip_forward",
	} {
		value, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(name + " " + string(value))
	}
	for _, args := range [][]string{{"ip", "-o", "route"}, {"ip", "-br", "link"}, {"nft", "list", "ruleset"}, {"findmnt", "-rno", "TARGET"}} {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		b.Write(out)
	}
	return b.String()
}

func (e e2e) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), e.binary, args...)
	if t.Context().Err() != nil { // while cleaning up
		c = exec.Command(e.binary, args...)
	}
	c.Env = e.env
	return c
}

func (e e2e) kubelab(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.command(t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubelab %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// try calls kubectl in a cluster.
func (e e2e) try(t *testing.T, cluster, input string, args ...string) (string, error) {
	t.Helper()
	c := e.command(t, append([]string{"kubectl", "--context", cluster}, args...)...)
	c.Stdin = strings.NewReader(input)
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (e e2e) kubectl(t *testing.T, cluster, input string, args ...string) string {
	t.Helper()
	out, err := e.try(t, cluster, input, args...)
	if err != nil {
		t.Fatalf("kubectl --context %s %s: %v\n%s", cluster, strings.Join(args, " "), err, out)
	}
	return out
}

// eventually tries until it works.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); !check(); time.Sleep(300 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 90 s", what)
		}
	}
}

func (e e2e) nodes(t *testing.T) {
	for cluster, want := range map[string]string{"a": "a1 True a2 True", "b": "b1 True"} {
		got := e.kubectl(t, cluster, "", "get", "nodes", "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status} {end}`)
		if got != want {
			t.Errorf("nodes of %s: %s, want %s", cluster, got, want)
		}
	}
}

const echo = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo}
spec:
  replicas: 2
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: echo}}}
      containers:
      - name: echo
        image: local.test/echo:1
        imagePullPolicy: Never
        resources: {limits: {cpu: 500m, memory: 64Mi}}
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec: {type: NodePort, selector: {app: echo}, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
`

func (e e2e) deployments(t *testing.T) {
	for _, cluster := range []string{"a", "b"} {
		e.kubectl(t, cluster, echo, "apply", "-f", "-")
	}
	for _, cluster := range []string{"a", "b"} {
		e.kubectl(t, cluster, "", "rollout", "status", "deployment/echo", "--timeout=90s")
	}
}

// pod finds a pod of echo by its node.
func (e e2e) pod(t *testing.T, cluster, node string) (name, address string) {
	t.Helper()
	out := e.kubectl(t, cluster, "", "get", "pods", "-l", "app=echo", "--field-selector", "status.phase=Running,spec.nodeName="+node,
		"-o", "jsonpath={.items[0].metadata.name} {.items[0].status.podIP}")
	name, address, _ = strings.Cut(out, " ")
	if _, err := netip.ParseAddr(address); err != nil {
		t.Fatalf("the pod of %s: %q", node, out)
	}
	return name, address
}

// services asks a Service by its DNS name, from one node, until the pods of
// both nodes have answered; and by its node port and its address, from the host.
func (e e2e) services(t *testing.T) {
	first, _ := e.pod(t, "a", "a1")
	second, _ := e.pod(t, "a", "a2")
	seen := map[string]bool{}
	eventually(t, "both pods answer", func() bool {
		out, err := e.try(t, "a", "", "exec", first, "--", "/echo", "get", "http://echo.default.svc.cluster.local/x")
		if err == nil {
			seen[strings.Fields(out)[0]] = true
		}
		return seen[first] && seen[second]
	})
	service := e.kubectl(t, "a", "", "get", "service", "echo", "-o", "jsonpath={.spec.clusterIP}")
	for _, url := range []string{"http://172.30.1.12:30080/node-port", "http://" + service + "/from-host"} {
		eventually(t, url, func() bool { return get(t, url) != "" })
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	var b bytes.Buffer
	if _, err = b.ReadFrom(response.Body); err != nil {
		return ""
	}
	return b.String()
}

// across asks a pod of B from a pod of A, directly: the address of A's pod is kept.
func (e e2e) across(t *testing.T) {
	from, address := e.pod(t, "a", "a2")
	name, to := e.pod(t, "b", "b1")
	out := e.kubectl(t, "a", "", "exec", from, "--", "/echo", "get", "http://"+to+":8080/across")
	if want := name + " answers /across from " + address + ":"; !strings.HasPrefix(out, want) {
		t.Errorf("%q, want %q", out, want)
	}
	if out := get(t, "http://"+to+":8080/host"); !strings.Contains(out, name) {
		t.Errorf("B's pod from the host: %q", out)
	}
}

func (e e2e) streams(t *testing.T) {
	name, _ := e.pod(t, "b", "b1")
	e.kubectl(t, "b", "", "run", "once", "--image", "local.test/echo:1", "--image-pull-policy", "Never", "--restart", "Never",
		"--", "get", "http://echo/logged")
	e.kubectl(t, "b", "", "wait", "pod/once", "--for", "jsonpath={.status.phase}=Succeeded", "--timeout=60s")
	if out := e.kubectl(t, "b", "", "logs", "once"); !strings.Contains(out, "answers /logged from ") {
		t.Errorf("logs: %q", out)
	}
	forward := e.command(t, "kubectl", "--context", "b", "port-forward", "pod/"+name, "18080:8080")
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = forward.Process.Signal(syscall.SIGTERM)
		_ = forward.Wait()
	}()
	eventually(t, "port-forward", func() bool { return strings.Contains(get(t, "http://127.0.0.1:18080/forwarded"), "/forwarded") })
}

// summary reads a busy container's CPU and memory through the API server.
func (e e2e) summary(t *testing.T) {
	e.kubectl(t, "a", `
apiVersion: v1
kind: Pod
metadata: {name: burn}
spec:
  nodeName: a2
  terminationGracePeriodSeconds: 1
  containers: [{name: burn, image: "local.test/echo:1", imagePullPolicy: Never, args: [burn]}]`, "apply", "-f", "-")
	type usage struct {
		UsageNanoCores, UsageCoreNanoSeconds, WorkingSetBytes uint64
	}
	var last usage
	eventually(t, "the summary has the CPU of burn", func() bool {
		out, err := e.try(t, "a", "", "get", "--raw", "/api/v1/nodes/a2/proxy/stats/summary")
		var summary struct {
			Pods []struct {
				PodRef     struct{ Name string }
				Containers []struct {
					Name        string
					CPU, Memory usage
				}
			}
		}
		if err != nil || json.Unmarshal([]byte(out), &summary) != nil {
			return false
		}
		for _, p := range summary.Pods {
			for _, c := range p.Containers {
				if p.PodRef.Name == "burn" && c.Name == "burn" {
					last = c.CPU
					last.WorkingSetBytes = c.Memory.WorkingSetBytes
				}
			}
		}
		return last.UsageNanoCores > 50e6 && last.UsageCoreNanoSeconds > 0 && last.WorkingSetBytes > 0
	})
	t.Logf("burn uses %.2f processors and %d KiB", float64(last.UsageNanoCores)/1e9, last.WorkingSetBytes>>10)
	e.kubectl(t, "a", "", "delete", "pod", "burn")
}

func (e e2e) webhook(t *testing.T) {
	authority, err := pki.New("webhook", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := authority.Pair()
	if err != nil {
		t.Fatal(err)
	}
	server, err := authority.Server("webhook", []string{"webhook.default.svc"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	object := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	type m = map[string]any
	manifests := []string{
		object(m{"apiVersion": "v1", "kind": "Secret", "metadata": m{"name": "webhook"}, "data": m{"crt": server.Cert, "key": server.Key}}),
		`{apiVersion: v1, kind: Service, metadata: {name: webhook}, spec: {selector: {app: webhook}, ports: [{port: 443, targetPort: 8443}]}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: webhook, labels: {app: webhook}}, spec: {nodeName: a2, volumes: [{name: tls, secret: {secretName: webhook}}],
		  containers: [{name: webhook, image: "local.test/echo:1", imagePullPolicy: Never, args: [webhook, /tls/crt, /tls/key], volumeMounts: [{name: tls, mountPath: /tls}],
		  readinessProbe: {tcpSocket: {port: 8443}, periodSeconds: 1}}], terminationGracePeriodSeconds: 1}}`,
	}
	e.kubectl(t, "a", strings.Join(manifests, "\n---\n"), "apply", "-f", "-")
	e.kubectl(t, "a", "", "wait", "pod/webhook", "--for=condition=Ready", "--timeout=60s")
	e.kubectl(t, "a", object(m{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": m{"name": "refuse"},
		"webhooks": []m{{
			"name": "refuse.kubelab.test", "sideEffects": "None", "admissionReviewVersions": []string{"v1"}, "failurePolicy": "Fail",
			"clientConfig":   m{"caBundle": ca.Cert, "service": m{"namespace": "default", "name": "webhook"}},
			"objectSelector": m{"matchLabels": m{"refuse": "me"}},
			"rules":          []m{{"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE"}, "resources": []string{"configmaps"}}},
		}},
	}), "apply", "-f", "-")
	eventually(t, "the webhook refuses", func() bool {
		out, err := e.try(t, "a", `{apiVersion: v1, kind: ConfigMap, metadata: {name: refused, labels: {refuse: me}}}`, "create", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(out, "refused by the webhook of this test")
	})
	e.kubectl(t, "a", "", "delete", "validatingwebhookconfiguration/refuse", "pod/webhook", "service/webhook", "secret/webhook")
}

func (e e2e) refused(t *testing.T, want, manifest string) {
	t.Helper()
	out, err := e.try(t, "a", manifest, "create", "-f", "-")
	if err == nil || !strings.Contains(out, want) {
		t.Errorf("%v: %q, want an error with %q", err, out, want)
	}
}

func (e e2e) podSecurity(t *testing.T) {
	e.kubectl(t, "a", `{apiVersion: v1, kind: Namespace, metadata: {name: secure, labels: {pod-security.kubernetes.io/enforce: baseline}}}`, "apply", "-f", "-")
	eventually(t, "a service account", func() bool {
		_, err := e.try(t, "a", "", "-n", "secure", "get", "serviceaccount", "default")
		return err == nil
	})
	e.refused(t, `violates PodSecurity "baseline`,
		`{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: secure}, spec: {hostNetwork: true, containers: [{name: x, image: "local.test/echo:1"}]}}`)
}

func (e e2e) quota(t *testing.T) {
	e.kubectl(t, "a", `{apiVersion: v1, kind: ResourceQuota, metadata: {name: none, namespace: secure}, spec: {hard: {pods: "0"}}}`, "apply", "-f", "-")
	eventually(t, "the quota is counted", func() bool {
		return e.kubectl(t, "a", "", "-n", "secure", "get", "resourcequota", "none", "-o", "jsonpath={.status.hard.pods}") == "0"
	})
	e.refused(t, "exceeded quota: none",
		`{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: secure}, spec: {containers: [{name: x, image: "local.test/echo:1"}]}}`)
	e.kubectl(t, "a", "", "delete", "namespace", "secure")
}

func (e e2e) apply(t *testing.T) {
	one := `{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {key: "1"}}`
	two := `{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {key: "2"}}`
	e.kubectl(t, "a", one, "apply", "--server-side", "--field-manager", "one", "-f", "-")
	if out, err := e.try(t, "a", two, "apply", "--server-side", "--field-manager", "two", "-f", "-"); err == nil || !strings.Contains(out, `conflict with "one"`) {
		t.Errorf("%v: %q, want a conflict", err, out)
	}
	e.kubectl(t, "a", "", "delete", "configmap", "shared")
}

func (e e2e) load(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "echo")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "./pods/echo")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := image.Write(&archive, "local.test/loaded:7", "loaded", program); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	e.kubelab(t, "load", path)
	e.kubectl(t, "a", "", "run", "loaded", "--image", "local.test/loaded:7", "--image-pull-policy", "Never", "--restart", "Never", "--", "get", "http://echo/")
	e.kubectl(t, "a", "", "wait", "pod/loaded", "--for", "jsonpath={.status.phase}=Succeeded", "--timeout=60s")
	e.kubectl(t, "a", "", "delete", "pod", "loaded")
}

func (e e2e) pause(t *testing.T) {
	pause := e.command(t, "pause", "api", "b", "1h")
	if err := pause.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server hangs", func() bool {
		_, err := e.try(t, "b", "", "get", "--raw", "/readyz", "--request-timeout=1s")
		return err != nil
	})
	if err := pause.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := pause.Wait(); err != nil {
		t.Errorf("an interrupted pause: %v", err)
	}
	eventually(t, "the API server goes on", func() bool {
		_, err := e.try(t, "b", "", "get", "--raw", "/readyz", "--request-timeout=5s")
		return err == nil
	})
}

// again checks that a second start changes nothing.
func (e e2e) again(t *testing.T) {
	before := e.first(t, "a1")
	begun := time.Now()
	e.kubelab(t, "up")
	t.Logf("a second start takes %s", time.Since(begun).Round(100*time.Millisecond))
	if after := e.first(t, "a1"); after != before {
		t.Errorf("the node's first process was %d and is %d", before, after)
	}
}

// first is the number of a unit's first process, of the status.
func (e e2e) first(t *testing.T, name string) int {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + `\s+\S+\s+\S+\s+(\d+)`).FindStringSubmatch(e.kubelab(t, "status"))
	if found == nil {
		t.Fatalf("%s does not run", name)
	}
	pid, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func (e e2e) repairNode(t *testing.T) {
	if err := syscall.Kill(e.first(t, "a2"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	e.kubelab(t, "up")
	t.Logf("repaired after %s", time.Since(begun).Round(100*time.Millisecond))
	from, _ := e.pod(t, "a", "a1")
	eventually(t, "the node's pod answers again", func() bool {
		out, err := e.try(t, "a", "", "get", "pods", "-l", "app=echo", "--field-selector", "spec.nodeName=a2", "-o", "jsonpath={.items[0].status.podIP}")
		if err != nil || out == "" {
			return false
		}
		_, err = e.try(t, "a", "", "exec", from, "--", "/echo", "get", "http://"+out+":8080/")
		return err == nil
	})
}

func (e e2e) repairControlPlane(t *testing.T) {
	if err := syscall.Kill(e.first(t, "b"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	e.kubelab(t, "up")
	t.Logf("repaired after %s", time.Since(begun).Round(100*time.Millisecond))
	if out := e.kubectl(t, "b", "", "get", "deployment", "echo", "-o", "name"); out != "deployment.apps/echo" {
		t.Errorf("what the cluster knew: %q", out)
	}
}

// repairNamespace takes the name of a node's network namespace away while the
// node runs in it.
func (e e2e) repairNamespace(t *testing.T) {
	path := "/run/netns/kle2e-b1"
	if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	before := e.first(t, "b1")
	e.kubelab(t, "up")
	if e.first(t, "b1") == before {
		t.Error("the node still runs in a namespace without a name")
	}
	e.nodes(t)
}

// interrupt kills a start in its middle.
func (e e2e) interrupt(t *testing.T) {
	t.Helper()
	up := e.command(t, "up")
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a node is started", func() bool {
		_, err := os.Stat("/var/lib/kle2e/units/a1/pid")
		return err == nil
	})
	if err := up.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := up.Wait(); err == nil {
		t.Error("the start was over before it was killed")
	}
}
