package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/sys"
)

// Labels and annotations of everything that a run makes.
const (
	labelManaged = "app.kubernetes.io/managed-by"
	managed      = "windtunnel"
	labelRun     = "windtunnel.dev/run"
	labelTrial   = "windtunnel.dev/trial"
	labelPod     = "windtunnel.dev/pod"
	labelNode    = "windtunnel.dev/node"
	labelCluster = "windtunnel.dev/cluster"
	noteStudy    = "windtunnel.dev/study"
	noteHolder   = "windtunnel.dev/holder"
	noteRenewed  = "windtunnel.dev/renewed"

	// prefix begins the names of the namespaces and ConfigMaps of runs.
	prefix = "windtunnel-"
	// abandoned is after how long without a sign of life a run of another host is dead.
	abandoned = 2 * time.Minute
)

func (t *Target) labels() map[string]string {
	return map[string]string{labelManaged: managed, labelRun: t.id}
}

func (t *Target) notes() map[string]string {
	return map[string]string{noteStudy: t.Run, noteHolder: holder(), noteRenewed: time.Now().UTC().Format(time.RFC3339)}
}

// claim makes the run's place in a cluster: its namespace, unless one is
// given, and the ConfigMap that owns everything else.
func (t *Target) claim(ctx context.Context, c *cluster) error {
	c.namespace = t.kube.Namespace
	if c.namespace == "" {
		c.namespace, c.made = prefix+t.id, true
		labels := t.labels()
		labels["pod-security.kubernetes.io/enforce"] = t.podSecurity()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace, Labels: labels, Annotations: t.notes()}}
		err := c.try(ctx, "making the namespace "+c.namespace, func(ctx context.Context) error {
			_, err := c.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
			return known(err)
		})
		if err != nil {
			return err
		}
	}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: prefix + t.id, Labels: t.labels(), Annotations: t.notes()}}
	c.owner = "being made" // from here on there may be something to release
	return c.try(ctx, "making the ConfigMap that owns the run's objects in namespace "+c.namespace, func(ctx context.Context) error {
		configs := c.client.CoreV1().ConfigMaps(c.namespace)
		made, err := configs.Create(ctx, owner, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			made, err = configs.Get(ctx, owner.Name, metav1.GetOptions{}) // an earlier try was heard after all
		}
		if err == nil {
			c.owner = made.UID
		}
		return err
	})
}

// known takes that something exists already, by an earlier try, for success.
func known(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// gone takes that something does not exist for success.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (c *cluster) renew(ctx context.Context, id string) {
	configs := c.client.CoreV1().ConfigMaps(c.namespace)
	owner, err := configs.Get(ctx, prefix+id, metav1.GetOptions{})
	if err != nil {
		return
	}
	owner.Annotations[noteRenewed] = time.Now().UTC().Format(time.RFC3339)
	_, _ = configs.Update(ctx, owner, metav1.UpdateOptions{}) // if it fails, the next may not
}

// owned is the metadata of an object of the run.
func (t *Target) owned(c *cluster, name string, labels map[string]string) metav1.ObjectMeta {
	all := t.labels()
	maps.Copy(all, labels)
	return metav1.ObjectMeta{
		Name: name, Namespace: c.namespace, Labels: all,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: prefix + t.id, UID: c.owner}},
	}
}

// release removes a run from a cluster, and returns when it is gone.
func (c *cluster) release(ctx context.Context, id string) error {
	selector := metav1.ListOptions{LabelSelector: labelRun + "=" + id}
	now := int64(0)
	err := c.try(ctx, "removing the run's objects from namespace "+c.namespace, func(ctx context.Context) error {
		core := c.client.CoreV1()
		services, err := core.Services(c.namespace).List(ctx, selector)
		if err != nil {
			return gone(err)
		}
		errs := []error{gone(core.Pods(c.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, selector))}
		for _, s := range services.Items {
			errs = append(errs, gone(core.Services(c.namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})))
		}
		slices := c.client.DiscoveryV1().EndpointSlices(c.namespace)
		errs = append(errs, gone(slices.DeleteCollection(ctx, metav1.DeleteOptions{}, selector)),
			gone(core.ConfigMaps(c.namespace).Delete(ctx, prefix+id, metav1.DeleteOptions{})))
		if c.made {
			errs = append(errs, gone(core.Namespaces().Delete(ctx, c.namespace, metav1.DeleteOptions{})))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	c.owner = ""
	return c.awaitGone(ctx, selector)
}

func (c *cluster) awaitGone(ctx context.Context, selector metav1.ListOptions) error {
	what := "pods of namespace " + c.namespace
	if c.made {
		what = "namespace " + c.namespace
	}
	for {
		left := 0
		err := c.try(ctx, "waiting for the end of "+what, func(ctx context.Context) error {
			if c.made {
				_, err := c.client.CoreV1().Namespaces().Get(ctx, c.namespace, metav1.GetOptions{})
				if err == nil {
					left = 1
				}
				return gone(err)
			}
			pods, err := c.client.CoreV1().Pods(c.namespace).List(ctx, selector)
			if err == nil {
				left = len(pods.Items)
			}
			return err
		})
		if err != nil || left == 0 {
			return err
		}
		if !wait(ctx, poll) {
			return fmt.Errorf("context %s: %s has not gone; the cluster is still removing it", c.context, what)
		}
	}
}

// Sweep removes what killed runs have left, and says what it removed. Runs that
// live are not touched.
func (t *Target) Sweep(ctx context.Context) (removed []string, err error) {
	if t.clusters, err = connectAll(ctx, t.Kubeconfig, t.kube.Contexts); err != nil {
		return nil, err
	}
	return t.sweep(ctx, true)
}

// sweep removes what killed runs have left. Without asked, only runs of this
// host that are surely dead, and what may not be looked at is left alone.
func (t *Target) sweep(ctx context.Context, asked bool) (removed []string, err error) {
	var errs []error
	for _, c := range t.clusters {
		list, failure := c.left(ctx, t.kube.Namespace)
		if failure != nil && asked {
			errs = append(errs, failure)
		}
		for _, old := range list {
			id := old.Labels[labelRun]
			if lives(old.Annotations, asked, time.Now()) || id == "" {
				continue
			}
			if failure = t.bury(ctx, *c, old.Namespace, id); failure != nil {
				if asked {
					errs = append(errs, failure)
				}
				continue
			}
			removed = append(removed, fmt.Sprintf("context %s: run %s of study %s in namespace %s", c.context, id, old.Annotations[noteStudy], old.Namespace))
		}
	}
	return removed, errors.Join(errs...)
}

// bury removes what a dead run has left in a namespace, and what it had installed.
func (t *Target) bury(ctx context.Context, c cluster, namespace, id string) error {
	c.namespace, c.made = namespace, t.kube.Namespace == "" && namespace == prefix+id
	if err := errors.Join(c.recall(ctx, id), t.uninstall(ctx, &c)); err != nil {
		return err
	}
	return c.release(ctx, id)
}

// left lists the runs in a namespace, or all namespaces that were made for runs.
func (c *cluster) left(ctx context.Context, namespace string) (all []metav1.ObjectMeta, err error) {
	selector := metav1.ListOptions{LabelSelector: labelManaged + "=" + managed}
	if namespace != "" {
		err = c.try(ctx, "looking for what killed runs left in namespace "+namespace, func(ctx context.Context) error {
			list, failure := c.client.CoreV1().ConfigMaps(namespace).List(ctx, selector)
			if failure == nil {
				all = nil
				for i := range list.Items {
					all = append(all, list.Items[i].ObjectMeta)
				}
			}
			return failure
		})
		return all, err
	}
	err = c.try(ctx, "looking for namespaces that killed runs left", func(ctx context.Context) error {
		list, failure := c.client.CoreV1().Namespaces().List(ctx, selector)
		if failure == nil {
			all = nil
			for _, ns := range list.Items {
				all = append(all, c.inNamespace(ctx, ns))
			}
		}
		return failure
	})
	return all, err
}

// inNamespace is the namespace as the object that stands for a run; its signs of
// life are in the ConfigMap.
func (c *cluster) inNamespace(ctx context.Context, ns corev1.Namespace) metav1.ObjectMeta {
	meta := ns.ObjectMeta
	meta.Namespace = ns.Name
	if !strings.HasPrefix(ns.Name, prefix) {
		meta.Labels = nil // not ours to remove
		return meta
	}
	if owner, err := c.client.CoreV1().ConfigMaps(ns.Name).Get(ctx, ns.Name, metav1.GetOptions{}); err == nil {
		meta.Annotations = owner.Annotations
	}
	return meta
}

// holder names this process: host, boot, number.
func holder() string {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return name + "/" + boot() + "/" + strconv.Itoa(os.Getpid())
}

func boot() string {
	b, err := sys.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// lives says whether a run may still be alive: its process, if it is of this
// host; else by its last sign of life. If nobody asked, those of other hosts
// are left alone.
func lives(notes map[string]string, asked bool, now time.Time) bool {
	own := strings.TrimSuffix(holder(), strconv.Itoa(os.Getpid()))
	if pid, ours := strings.CutPrefix(notes[noteHolder], own); ours {
		_, err := os.Stat("/proc/" + pid)
		return err == nil
	}
	if !asked {
		return true
	}
	at, err := time.Parse(time.RFC3339, notes[noteRenewed])
	return err == nil && now.Sub(at) < abandoned
}
