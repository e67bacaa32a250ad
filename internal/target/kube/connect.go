package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/windtunnel/windtunnel/internal/model"
)

// cluster is one context of the kubeconfig, connected.
type cluster struct {
	context   string
	config    *rest.Config // without a timeout, for streams
	client    kubernetes.Interface
	dynamic   dynamic.Interface // for objects whose kinds are not known here
	version   string
	namespace string
	made      bool // the namespace is the run's own
	owner     uid  // of the ConfigMap that owns everything; empty: not claimed
	installed []installed
}

// connectAll connects to the contexts; to the current one where there are none.
func connectAll(ctx context.Context, path string, contexts []string) ([]*cluster, error) {
	// client-go logs every stream that ends as an error; what matters is returned.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	raw, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if len(contexts) == 0 {
		contexts = []string{raw.CurrentContext}
	}
	if len(raw.Contexts) == 0 {
		return nil, &model.UnsupportedError{
			What: "the target kube", Missing: "no kubeconfig with a context in it: looked in " + strings.Join(rules.Precedence, ", "),
			Hint: "set KUBECONFIG, or give --kubeconfig FILE",
		}
	}
	var all []*cluster
	for _, name := range contexts {
		c, err := connect(ctx, clientcmd.NewNonInteractiveClientConfig(*raw, name, &clientcmd.ConfigOverrides{}, rules), name)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func connect(ctx context.Context, from clientcmd.ClientConfig, name string) (*cluster, error) {
	config, err := from.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the context %q of the kubeconfig: %w", name, err)
	}
	const perSecond, burst = 100, 200
	config.QPS, config.Burst, config.UserAgent = perSecond, burst, "windtunnel"
	calls := rest.CopyConfig(config)
	calls.Timeout = requestTimeout
	client, err := kubernetes.NewForConfig(calls)
	if err != nil {
		return nil, fmt.Errorf("reading the context %q of the kubeconfig: %w", name, err)
	}
	objects, err := dynamic.NewForConfig(calls)
	if err != nil {
		return nil, fmt.Errorf("reading the context %q of the kubeconfig: %w", name, err)
	}
	c := &cluster{context: name, config: config, client: client, dynamic: objects}
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	err = c.try(ctx, "connecting", func(context.Context) error {
		info, failure := client.Discovery().ServerVersion()
		if failure == nil {
			c.version = info.GitVersion
		}
		return failure
	})
	return c, err
}

// node looks at a node, which needs more than a namespace's permissions.
func (c *cluster) node(ctx context.Context, name string) (*corev1.Node, error) {
	return c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// between is how long to wait before another try.
const between = 500 * time.Millisecond

// try does something with the API server, again and again while that cannot be
// reached, and says in the cluster's own words what went wrong.
func (c *cluster) try(ctx context.Context, doing string, do func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	began := time.Now()
	for {
		err := do(limited)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			return fmt.Errorf("context %s: %s: %w", c.context, doing, context.Cause(ctx))
		}
		if !unreachable(err) {
			return c.explain(doing, err)
		}
		if !wait(limited, between) {
			return &model.TargetError{
				What: fmt.Sprintf("context %s: %s", c.context, doing),
				Why:  fmt.Sprintf("the API server did not answer for %s: %v", time.Since(began).Round(time.Second), err),
				Hint: "the run can be resumed when it does",
			}
		}
	}
}

// wait returns false if the context ends first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// unreachable says whether an error means that the API server is not there
// just now.
func unreachable(err error) bool {
	var certificate *tls.CertificateVerificationError
	var network net.Error
	var op *net.OpError
	var resolving *net.DNSError
	switch {
	case errors.As(err, &certificate):
		return false
	case apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err):
		return true
	case errors.As(err, &op), errors.As(err, &resolving), errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return true
	}
	text := err.Error()
	return strings.Contains(text, "EOF") || strings.Contains(text, "connection reset") || strings.Contains(text, "etcdserver") ||
		strings.Contains(text, "apiserver not ready")
}

// explain says what the API server refused, why, and what can be done.
func (c *cluster) explain(doing string, err error) error {
	e := &model.TargetError{What: fmt.Sprintf("context %s: %s", c.context, doing), Why: err.Error()}
	switch text := err.Error(); {
	case strings.Contains(text, "exceeded quota"):
		e.Hint = "raise the quota of namespace " + c.namespace + ", or use fewer pods"
	case strings.Contains(text, "violates PodSecurity"):
		e.Hint = "the pods keep to the level restricted; a sidecar that something injects may not"
	case strings.Contains(text, "admission webhook"):
		e.Hint = "an admission webhook of the cluster refuses it"
	case strings.Contains(text, "LimitRange") || strings.Contains(text, "limits.") || strings.Contains(text, "must specify"):
		e.Hint = "the namespace's limits do not allow these pods"
	case apierrors.IsUnauthorized(err):
		e.Hint = "the kubeconfig's credentials are not accepted: log in again"
	case apierrors.IsForbidden(err) && strings.Contains(text, "namespaces"):
		e.Hint = "give --namespace with one that you may use; deploy/rbac.yaml has the permissions that are needed there"
	case apierrors.IsForbidden(err):
		e.Hint = "deploy/rbac.yaml has the permissions that are needed"
	case apierrors.IsNotFound(err) && c.namespace != "" && strings.Contains(text, "namespaces"):
		e.Hint = "--namespace names one that exists"
	}
	return e
}
