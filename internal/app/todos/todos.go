// Package todos is a REST service in two tiers, a list of things to do in a
// real Redis, as it was measured across regions: servers in every cluster, and
// a database in every cluster.
package todos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/hop"
	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/sys"
)

// Name is the app's name in studies.
const Name = "todos"

// Config is the app's configuration in a study.
type Config struct {
	Servers     string   `json:"servers,omitempty" jsonschema:"default=server" jsonschema_description:"The service whose pods are servers."`
	Databases   string   `json:"databases,omitempty" jsonschema:"default=redis" jsonschema_description:"The service whose pods are databases."`
	Database    string   `json:"database,omitempty" jsonschema:"enum=local,enum=merged,default=local" jsonschema_description:"Which databases a server uses. local: those of its own cluster. merged: the service's as the stack has it; without a stack those of all clusters, each new connection the next."`
	Todos       []string `json:"todos,omitempty" jsonschema:"maxItems=10000" jsonschema_description:"What is on the list in the beginning, in every database. If absent: three titles."`
	Idle        *int     `json:"idle,omitempty" jsonschema:"minimum=0,maximum=10000,default=3" jsonschema_description:"The most connections to databases that a server keeps idle. The one that was used last is taken first."`
	IdleTimeout string   `json:"idle_timeout,omitempty" jsonschema:"default=240s" jsonschema_description:"How long an idle connection is kept, at most 1h."`
	Timeout     string   `json:"timeout,omitempty" jsonschema:"default=5s" jsonschema_description:"How long a database may take to answer, connecting included; at most 1m."`
	Redis       string   `json:"redis,omitempty" jsonschema_description:"Path of redis-server. If absent: it is looked for."`
}

const (
	maxTodos    = 10_000
	maxIdle     = 10_000
	usualIdle   = 3
	usualKept   = 240 * time.Second
	usualAnswer = 5 * time.Second
)

// settings are the Config as processes are told it.
type settings struct {
	Databases   string        `json:"databases"`
	Idle        int           `json:"idle"`
	IdleTimeout time.Duration `json:"idle_timeout_ns"`
	Timeout     time.Duration `json:"timeout_ns"`
	// Seed is what a database is filled with, of the process that does so.
	Seed *[]string `json:"seed,omitempty"`
}

// App runs servers and databases.
type App struct {
	settings settings
	servers  string
	merged   bool
	todos    []string
	redis    string
	deployed *hop.Deployment
}

var (
	_ model.App             = (*App)(nil)
	_ model.Connector       = (*App)(nil)
	_ model.TopologyChecker = (*App)(nil)
	_ model.LoadChecker     = (*App)(nil)
)

// Plugin is the catalog entry.
func Plugin() model.Plugin[model.App] {
	return model.Plugin[model.App]{
		Name: Name, Summary: "a REST service in two tiers: a list in a real Redis, a database in every cluster", Config: Config{},
		New: func(config json.RawMessage) (model.App, error) {
			a, err := parse(config)
			return a, err
		},
	}
}

func parse(raw json.RawMessage) (*App, error) {
	c := Config{Servers: "server", Databases: "redis", Todos: []string{"write", "measure", "report"}}
	if err := model.ReadConfig(raw, &c); err != nil {
		return nil, err
	}
	var p hop.Problems
	if c.Todos == nil {
		c.Todos = []string{} // null is none
	}
	a := &App{servers: c.Servers, merged: c.Database == "merged", todos: c.Todos, redis: c.Redis}
	a.settings = settings{
		Databases: c.Databases, Idle: usualIdle,
		IdleTimeout: p.Span("idle_timeout", c.IdleTimeout, usualKept, time.Hour), Timeout: p.Span("timeout", c.Timeout, usualAnswer, time.Minute),
	}
	if a.settings.Timeout == 0 {
		p.Add("timeout", "is 0; a database needs some time")
	}
	if c.Idle != nil {
		a.settings.Idle = *c.Idle
	}
	if a.settings.Idle < 0 || a.settings.Idle > maxIdle {
		p.Add("idle", "is %d; it can be 0 to %d", a.settings.Idle, maxIdle)
	}
	if c.Database != "" && c.Database != "local" && c.Database != "merged" {
		p.Add("database", "is %q; it can be local or merged", c.Database)
	}
	if len(c.Todos) > maxTodos {
		p.Add("todos", "has %d entries; it can have %d", len(c.Todos), maxTodos)
	}
	if c.Servers == c.Databases {
		p.Add("databases", "is %q, as servers", c.Databases)
	}
	return a, p.Err()
}

// Check says whether there is a Redis to run.
func (a *App) Check(context.Context) error {
	_, err := a.find()
	return err
}

func (a *App) find() (string, error) {
	looked := "in PATH"
	path, err := sys.Look("redis-server")
	if a.redis != "" {
		path, looked = a.redis, "at "+a.redis
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", &model.UnsupportedError{What: "the app todos", Missing: "no redis-server " + looked, Hint: "apt-get install redis-server; its service need not run"}
	}
	return path, nil
}

// CheckLoad refuses what is not HTTP.
func (a *App) CheckLoad(l model.Load) error { return hop.CheckLoad(Name, l) }

// CheckTopology wants both services, no others, and where each server uses the
// databases of its own cluster, one there.
func (a *App) CheckTopology(t model.Topology) error {
	var p hop.Problems
	p.Services("kind", []string{a.servers, a.settings.Databases}, t, "")
	i := slices.IndexFunc(t.Services, func(s model.Service) bool { return s.Name == a.servers })
	if len(p) > 0 || a.merged {
		return p.Err()
	}
	for _, pod := range t.Services[i].Pods {
		if len(a.own(t, pod)) == 0 {
			p.Add("database", "is local, but the cluster of the server %s has no pod of the service %s", pod, a.settings.Databases)
		}
	}
	return p.Err()
}

// own are the databases in the cluster of a pod.
func (a *App) own(t model.Topology, pod string) []string {
	for _, r := range t.Regions {
		for _, c := range r.Clusters {
			var here []string
			for _, n := range c.Nodes {
				for _, p := range n.Pods {
					here = append(here, p.Name)
				}
			}
			if !slices.Contains(here, pod) {
				continue
			}
			for _, s := range t.Services {
				if s.Name == a.settings.Databases {
					return slices.DeleteFunc(slices.Clone(s.Pods), func(d string) bool { return !slices.Contains(here, d) })
				}
			}
		}
	}
	return nil
}

// front is where a server finds its databases: its own cluster's, at their
// pods' addresses whatever the stack, or the service's, wherever that is.
func (a *App) front(s model.Site, service hop.Front) hop.Front {
	if a.merged {
		return service
	}
	return func(pod, name string) ([]netip.AddrPort, error) {
		svc, err := s.Service(name)
		if err != nil {
			return nil, err
		}
		return hop.Addresses(s, a.own(s.Topology(), pod), svc.TargetPort)
	}
}

// Deploy starts a Redis in every pod of the databases, with what fills it, and
// a server in every pod of the servers.
func (a *App) Deploy(ctx context.Context, s model.Site) (model.Endpoints, error) {
	all := model.Endpoints{Service: a.servers}
	program, err := a.find()
	if err != nil {
		return all, err
	}
	if err = a.CheckTopology(s.Topology()); err != nil {
		return all, fmt.Errorf("deploying todos: %w", err)
	}
	databases, err := s.Service(a.settings.Databases)
	if err != nil {
		return all, err
	}
	filling := a.settings
	filling.Seed = &a.todos
	var processes []hop.Server
	for _, name := range databases.Pods {
		if err = startRedis(ctx, s, name, program, databases.TargetPort); err != nil {
			return all, err
		}
		processes = append(processes, hop.Server{Service: databases.Name, Pod: name, Config: filling})
	}
	servers, err := s.Service(a.servers)
	if err != nil {
		return all, err
	}
	for _, name := range servers.Pods {
		processes = append(processes, hop.Server{Service: a.servers, Pod: name, Calls: []string{databases.Name}, Config: a.settings})
	}
	if a.deployed, err = hop.Deploy(ctx, s, Name, processes, a.front(s, hop.Direct(s))); err != nil {
		return all, err
	}
	all.Backends, err = a.deployed.Backends()
	all.Backends = slices.DeleteFunc(all.Backends, func(b model.Backend) bool { return !slices.Contains(servers.Pods, b.Pod) })
	return all, err
}

func startRedis(ctx context.Context, s model.Site, name, program string, port uint16) error {
	pod, err := s.Pod(name)
	if err != nil {
		return err
	}
	if _, err = pod.Start(ctx, redis(program, port)); err != nil {
		return fmt.Errorf("deploying Redis in pod %s: %w", name, err)
	}
	return nil
}

// redis keeps everything in memory only.
func redis(program string, port uint16) model.Process {
	return model.Process{
		Name: "redis", Component: model.ComponentApp, Command: []string{program, "{dir}/redis.conf"},
		Files: map[string][]byte{"redis.conf": []byte("bind 0.0.0.0\nport " + strconv.Itoa(int(port)) +
			"\nprotected-mode no\nsave \"\"\nappendonly no\ndaemonize no\nlogfile \"\"\ndir {dir}\n")},
	}
}

// Connect tells the servers where their databases are.
func (a *App) Connect(ctx context.Context, s model.Site, front func(service string) []netip.AddrPort) error {
	return a.deployed.Connect(ctx, s, a.front(s, hop.Of(front)))
}
