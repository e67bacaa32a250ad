package envoy

import (
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

// waypoint is the Envoy for L7 of a cluster, to which node proxies send what is
// for services that speak HTTP, as Istio has one for each namespace. It runs on
// the node of the cluster's first server, and has that node's address.
type waypoint struct {
	proxy.Envoy

	at   origin
	addr string
}

// roleWaypoint is the waypoints' own service account.
const roleWaypoint = "waypoint"

// planWaypoints finds where they go.
func (l *ambient) planWaypoints(s model.Site) ([]*waypoint, error) {
	nodes, ok := s.(model.NodeSite)
	wired, known := s.(model.WiredSite)
	if !ok || !known {
		return nil, noNodes()
	}
	addrs := map[string]string{}
	for _, w := range wired.Wiring() {
		addrs[w.Node] = w.Addr.String()
	}
	var all []*waypoint
	for _, c := range l.mesh.places.Clusters {
		name := l.home(s.Topology(), c)
		if name == "" {
			continue // no pods
		}
		node, err := nodes.Node(name)
		if err != nil {
			return nil, err
		}
		where, ok := node.(proxy.Place)
		if !ok {
			return nil, noNodes()
		}
		all = append(all, &waypoint{
			Envoy: proxy.Envoy{Where: where, Admin: portWaypointAdmin}, at: origin{"waypoint-" + c.Name, roleWaypoint, "", c}, addr: addrs[name],
		})
	}
	return all, nil
}

// home is the node of a cluster's first server, or else of its first pod.
func (l *ambient) home(t model.Topology, c *proxy.Cluster) (node string) {
	for _, n := range t.Nodes() {
		if !slices.Contains(c.Nodes, n.Name) || len(n.Pods) == 0 {
			continue
		}
		if node == "" {
			node = n.Name
		}
		for _, s := range l.mesh.services {
			if slices.ContainsFunc(n.Pods, func(p model.PodSpec) bool { return s.has(p.Name) }) {
				return n.Name
			}
		}
	}
	return node
}

// waypointOf is that of an origin's cluster; nil: none.
func (l *ambient) waypointOf(o origin) *waypoint {
	for _, w := range l.ways {
		if w.at.cluster == o.cluster {
			return w
		}
	}
	return nil
}

func waypointCluster(o origin) string { return "waypoint|" + o.name }

// authority is by which a waypoint knows a service: its virtual address.
func (w *waypoint) authority(s service) string { return fmt.Sprintf("%s:%d", s.VIP, s.Port) }

// toWaypoint is the way of an origin to its waypoint.
func (l *ambient) toWaypoint(o origin, w *waypoint) object {
	name := waypointCluster(o)
	return l.tunnel(object{
		"name": name, "type": "STATIC",
		"load_assignment": object{"cluster_name": name, "endpoints": list{
			object{"lb_endpoints": list{object{"endpoint": object{"address": proxy.Address(w.addr, portHBONE)}}}},
		}},
	}, o, l.mesh.identity(roleWaypoint))
}

// waypointFiles are a waypoint's configuration and credentials.
func (l *ambient) waypointFiles(w *waypoint) (map[string][]byte, error) {
	inside, clusters, err := l.originate(w.at)
	if err != nil {
		return nil, err
	}
	listeners := list{inside}
	authorities, order := map[string]string{}, []string{}
	for _, s := range l.mesh.services {
		if !s.http {
			continue
		}
		name := "main|" + s.Name
		authority := w.authority(s)
		authorities[authority], order = name, append(order, authority)
		clusters = append(clusters, object{"name": name, "type": "STATIC", "load_assignment": object{"cluster_name": name, "endpoints": list{
			object{"lb_endpoints": list{object{"endpoint": object{"address": object{"envoy_internal_address": object{"server_listener_name": name}}}}}},
		}}})
		listeners = append(listeners, object{
			"name": name, "internal_listener": object{},
			"filter_chains": list{object{"filters": list{httpManager("waypoint_"+s.Name, routes(w.at.via(s), object{"retry_policy": retries()}, l.mesh.passed(s)), nil)}}},
		})
	}
	listeners = append(listeners, l.terminate("connect_terminate", "hbone", roleWaypoint, proxy.Address(w.addr, portHBONE), authorities, order))
	config, err := proxy.Encode(object{
		"node":                 object{"id": w.at.name, "cluster": "windtunnel"},
		"admin":                object{"address": proxy.Address("127.0.0.1", portWaypointAdmin)},
		"bootstrap_extensions": internalListeners(),
		"layered_runtime":      gentleEnds(),
		"static_resources":     object{"listeners": listeners, "clusters": clusters},
	})
	if err != nil {
		return nil, err
	}
	return l.credentials(map[string][]byte{"envoy.json": config}, roleWaypoint)
}
