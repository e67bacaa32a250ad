package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Charts installs Helm's charts in a cluster.
type Charts interface {
	// Exists says whether there is a release of that name.
	Exists(ctx context.Context, config *rest.Config, release, namespace string) (bool, error)
	// Install installs a release and waits until it is ready.
	Install(ctx context.Context, config *rest.Config, c model.Chart) error
	// Uninstall removes a release, if there is one.
	Uninstall(ctx context.Context, config *rest.Config, release, namespace string) error
}

// keyInstalled is where the run's ConfigMap says what the run has installed.
const keyInstalled = "installed.json"

// installed is a release that the run has made, or was about to.
type installed struct {
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
	// Made says that the namespace is the run's, too.
	Made bool `json:"made_namespace"`
}

// charts is how many releases the run makes, in one cluster.
func (t *Target) charts() (n int) {
	for _, m := range t.Meshes {
		n += len(m.Charts)
	}
	return n
}

// install installs the charts of all meshes that ask for it, in all clusters. A
// release that exists is somebody else's, and is refused.
func (t *Target) install(ctx context.Context) error {
	if t.charts() > 0 && t.Charts == nil {
		return errors.New("this program has no Helm in it")
	}
	for _, c := range t.clusters {
		for _, m := range t.Meshes {
			for _, chart := range m.Charts {
				if slices.ContainsFunc(c.installed, func(i installed) bool { return i.Release == chart.Release && i.Namespace == chart.Namespace }) {
					continue // another variant's, too
				}
				if err := t.installOne(ctx, c, m, chart); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (t *Target) installOne(ctx context.Context, c *cluster, m model.Mesh, chart model.Chart) error {
	what := fmt.Sprintf("the release %s of the mesh %s in namespace %s", chart.Release, m.Name, chart.Namespace)
	there, err := t.Charts.Exists(ctx, c.config, chart.Release, chart.Namespace)
	if err != nil {
		return administrators(c.explain("looking for "+what, err), m)
	}
	if there {
		return &model.UnsupportedError{
			What: "context " + c.context + ": installing " + what, Missing: "it exists already", Hint: "use the mesh as it is: installed: as-found",
		}
	}
	_, err = c.client.CoreV1().Namespaces().Get(ctx, chart.Namespace, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return administrators(c.explain("looking at the namespace "+chart.Namespace, err), m)
	}
	made := err != nil
	// Written down first: what is killed in between can still be removed.
	c.installed = append(c.installed, installed{chart.Release, chart.Namespace, made})
	if err = t.writeDown(ctx, c); err != nil {
		return err
	}
	if made {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chart.Namespace, Labels: map[string]string{labelRun: t.id}}}
		if _, err = c.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); known(err) != nil {
			return administrators(c.explain("making the namespace "+chart.Namespace, err), m)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, chartPatience)
	defer cancel()
	if err = t.Charts.Install(ctx, c.config, chart); err != nil {
		return administrators(c.explain("installing "+what, err), m)
	}
	return nil
}

// administrators says what installing a mesh needs.
func administrators(err error, m model.Mesh) error {
	if target, ok := errors.AsType[*model.TargetError](err); ok {
		target.Hint = "installing " + m.Name + " needs a cluster administrator's rights, and its charts where they can be fetched (chart: names another place); " +
			"or let somebody install it, and use it with installed: as-found"
	}
	return err
}

// writeDown keeps what the run has installed with the run's owner.
func (t *Target) writeDown(ctx context.Context, c *cluster) error {
	raw, err := json.Marshal(c.installed)
	if err != nil {
		return fmt.Errorf("encoding what was installed: %w", err)
	}
	return c.try(ctx, "writing down what is installed, in namespace "+c.namespace, func(ctx context.Context) error {
		configs := c.client.CoreV1().ConfigMaps(c.namespace)
		owner, failure := configs.Get(ctx, prefix+t.id, metav1.GetOptions{})
		if failure != nil {
			return failure
		}
		owner.Data = map[string]string{keyInstalled: string(raw)}
		_, failure = configs.Update(ctx, owner, metav1.UpdateOptions{})
		if apierrors.IsConflict(failure) { // with a sign of life
			return apierrors.NewServiceUnavailable(failure.Error())
		}
		return failure
	})
}

// uninstall removes what the run has installed in a cluster, last first.
func (t *Target) uninstall(ctx context.Context, c *cluster) error {
	var errs []error
	for _, i := range slices.Backward(c.installed) {
		if t.Charts == nil {
			return errors.New("this program has no Helm in it, which made " + i.Release)
		}
		if err := t.Charts.Uninstall(ctx, c.config, i.Release, i.Namespace); err != nil {
			errs = append(errs, fmt.Errorf("context %s: removing the release %s from namespace %s: %w", c.context, i.Release, i.Namespace, err))
		}
	}
	for _, i := range slices.Backward(c.installed) {
		if i.Made && len(errs) == 0 {
			errs = append(errs, gone(c.client.CoreV1().Namespaces().Delete(ctx, i.Namespace, metav1.DeleteOptions{})))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.installed = nil
	return nil
}

// recall reads what a killed run had installed.
func (c *cluster) recall(ctx context.Context, id string) error {
	owner, err := c.client.CoreV1().ConfigMaps(c.namespace).Get(ctx, prefix+id, metav1.GetOptions{})
	if err != nil {
		return gone(err)
	}
	if raw := owner.Data[keyInstalled]; raw != "" {
		if err = json.Unmarshal([]byte(raw), &c.installed); err != nil {
			return fmt.Errorf("context %s: reading what run %s has installed: %w", c.context, id, err)
		}
	}
	return nil
}
