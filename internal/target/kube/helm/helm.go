// Package helm installs charts in clusters, as the program helm does, and with
// its library. It is linked into windtunnel-kube only.
package helm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/windtunnel/windtunnel/internal/model"
)

// patience is how long one release may take to become ready.
const patience = 4 * time.Minute

// Installer installs and removes releases.
type Installer struct {
	// Cache is where charts are kept that were fetched.
	Cache string
	// Plain asks registries without TLS, as tests do.
	Plain bool
}

// Exists says whether there is a release of that name, in whatever state.
func (i Installer) Exists(_ context.Context, config *rest.Config, release, namespace string) (bool, error) {
	c, err := i.connect(config, namespace)
	if err != nil {
		return false, err
	}
	_, err = action.NewHistory(c).Run(release)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the history of release %s: %w", release, err)
	}
	return true, nil
}

// Install installs a chart and waits until what it made is ready.
func (i Installer) Install(ctx context.Context, config *rest.Config, c model.Chart) error {
	configuration, err := i.connect(config, c.Namespace)
	if err != nil {
		return err
	}
	install := action.NewInstall(configuration)
	install.ReleaseName, install.Namespace, install.Version = c.Release, c.Namespace, c.Version
	install.Wait, install.Timeout = true, patience
	what, err := i.load(install, c)
	if err != nil {
		return err
	}
	values, err := Values(c)
	if err != nil {
		return err
	}
	if _, err = install.RunWithContext(ctx, what, values); err != nil {
		return fmt.Errorf("installing chart %s %s: %w", what.Name(), what.Metadata.Version, err)
	}
	return nil
}

// Uninstall removes a release and waits until what it made is gone. Custom
// resource definitions stay, as Helm leaves them.
func (i Installer) Uninstall(_ context.Context, config *rest.Config, release, namespace string) error {
	c, err := i.connect(config, namespace)
	if err != nil {
		return err
	}
	uninstall := action.NewUninstall(c)
	uninstall.IgnoreNotFound, uninstall.Wait, uninstall.Timeout = true, true, patience
	if _, err = uninstall.Run(release); err != nil {
		return fmt.Errorf("removing release %s: %w", release, err)
	}
	return nil
}

// Render is what a chart's templates make of its values, without a cluster.
func (i Installer) Render(ctx context.Context, c model.Chart) (string, error) {
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ReleaseName, install.Namespace, install.Version = c.Release, c.Namespace, c.Version
	install.DryRun, install.ClientOnly, install.IncludeCRDs = true, true, true
	install.KubeVersion = &chartutil.DefaultCapabilities.KubeVersion
	what, err := i.load(install, c)
	if err != nil {
		return "", err
	}
	values, err := Values(c)
	if err != nil {
		return "", err
	}
	release, err := install.RunWithContext(ctx, what, values)
	if err != nil {
		return "", fmt.Errorf("rendering chart %s %s: %w", what.Name(), what.Metadata.Version, err)
	}
	return release.Manifest, nil
}

// Values are a chart's, with those that are made at installation.
func Values(c model.Chart) (map[string]any, error) {
	if c.Make == nil {
		return c.Values, nil
	}
	made, err := c.Make()
	if err != nil {
		return nil, fmt.Errorf("making values of release %s: %w", c.Release, err)
	}
	return chartutil.CoalesceTables(made, c.Values), nil // those that are made come first
}

// load finds a chart in a folder, a registry or a repository.
func (i Installer) load(install *action.Install, c model.Chart) (*chart.Chart, error) {
	settings := cli.New()
	settings.RepositoryCache, settings.RepositoryConfig = i.Cache, filepath.Join(i.Cache, "repositories.yaml")
	name := c.Name
	switch {
	case registry.IsOCI(c.Source):
		options := []registry.ClientOption{registry.ClientOptCredentialsFile(filepath.Join(i.Cache, "registry.json"))}
		if install.PlainHTTP = i.Plain; i.Plain {
			options = append(options, registry.ClientOptPlainHTTP())
		}
		client, err := registry.NewClient(options...)
		if err != nil {
			return nil, fmt.Errorf("preparing to fetch from %s: %w", c.Source, err)
		}
		install.SetRegistryClient(client)
		name = strings.TrimSuffix(c.Source, "/") + "/" + c.Name
	case strings.HasPrefix(c.Source, "https://"), strings.HasPrefix(c.Source, "http://"):
		install.RepoURL = c.Source
	default:
		name = local(c)
	}
	if err := os.MkdirAll(i.Cache, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of fetched charts: %w", err)
	}
	path, err := install.LocateChart(name, settings)
	if err != nil {
		return nil, fmt.Errorf("finding chart %s %s in %s: %w", c.Name, c.Version, c.Source, err)
	}
	loaded, err := loader.Load(path)
	if err != nil {
		return nil, fmt.Errorf("reading chart %s: %w", path, err)
	}
	return loaded, nil
}

// local is the path of a chart: of the folder itself, if it is one, or of one
// below it by name, packed or not.
func local(c model.Chart) string {
	if _, err := os.Stat(filepath.Join(c.Source, "Chart.yaml")); err == nil || strings.HasSuffix(c.Source, ".tgz") {
		return c.Source
	}
	packed, err := filepath.Glob(filepath.Join(c.Source, c.Name+"-[0-9]*.tgz"))
	if err == nil && len(packed) == 1 {
		return packed[0]
	}
	return filepath.Join(c.Source, c.Name)
}

// connect prepares Helm to work in a namespace of a cluster. Releases are kept
// there as Secrets, where the program helm finds them, too.
func (i Installer) connect(config *rest.Config, namespace string) (*action.Configuration, error) {
	c := &action.Configuration{}
	if err := c.Init(getter{config, namespace}, namespace, "secret", func(string, ...any) {}); err != nil {
		return nil, fmt.Errorf("preparing Helm for namespace %s: %w", namespace, err)
	}
	return c, nil
}

// getter is how Helm reaches a cluster: as we do.
type getter struct {
	config    *rest.Config
	namespace string
}

// ToRESTConfig is the connection.
func (g getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

// ToDiscoveryClient tells what the cluster serves.
func (g getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	client, err := discovery.NewDiscoveryClientForConfig(g.config)
	if err != nil {
		return nil, fmt.Errorf("preparing to ask what the cluster serves: %w", err)
	}
	return memory.NewMemCacheClient(client), nil
}

// ToRESTMapper finds the API of a kind.
func (g getter) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := g.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(client), client, nil), nil
}

// ToRawKubeConfigLoader tells the namespace.
func (g getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: api.Context{Namespace: g.namespace}}
	return clientcmd.NewDefaultClientConfig(api.Config{}, overrides)
}
