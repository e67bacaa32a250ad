package envoy

import (
	"context"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/proxy"
)

const (
	roleDoor      = "ingress" // the ingress's own service account
	portDoorAdmin = 15050
)

// openDoor starts an ingress: an Envoy on a node, which takes plaintext requests
// for one host and sends them into the mesh as a member of it.
func (l *Layer) openDoor(ctx context.Context, s model.Site, in model.Ingress) error {
	nodes, ok := s.(model.NodeSite)
	if !ok {
		return noNodes()
	}
	node, err := nodes.Node(in.Node)
	if err != nil {
		return err
	}
	where, ok := node.(proxy.Place)
	if !ok {
		return noNodes()
	}
	files, err := l.doorFiles(in)
	if err != nil {
		return err
	}
	l.live.door = &proxy.Envoy{Where: where, Admin: portDoorAdmin}
	err = l.live.door.Start(ctx, proxy.Spec{
		Name: roleDoor, Component: model.ComponentGateway, Program: l.program.Path, Concurrency: l.config.Concurrency, Files: files,
	})
	if err != nil {
		return fmt.Errorf("starting the ingress: %w", err)
	}
	return nil
}

func (l *Layer) closeDoor(ctx context.Context) error {
	door := l.live.door
	if door == nil {
		return nil
	}
	l.live.door = nil
	return door.Stop(ctx)
}

func (l *Layer) doorFiles(in model.Ingress) (map[string][]byte, error) {
	s, err := l.mesh.service(l.live.rules.Service)
	if err != nil {
		return nil, err
	}
	// The ingress reaches a service as the sidecars of its cluster do.
	cluster, err := l.mesh.outboundCluster(s, l.mesh.sidecars[0])
	if err != nil {
		return nil, err
	}
	manager := httpManager(roleDoor, routes(clusterName(s), object{"retry_policy": retries()}, nil), nil)
	managers(manager, func(config object) {
		table, _ := config["route_config"].(object)
		hosts, _ := table["virtual_hosts"].(list)
		for _, h := range hosts {
			if host, ok := h.(object); ok {
				host["domains"] = list{in.Host, fmt.Sprint(in.Host, ":", in.Port)}
			}
		}
	})
	config, err := proxy.Encode(object{
		"node":  object{"id": roleDoor, "cluster": "windtunnel"},
		"admin": object{"address": proxy.Address("127.0.0.1", portDoorAdmin)},
		"static_resources": object{
			"listeners": list{object{
				"name": roleDoor, "address": proxy.Address("0.0.0.0", in.Port), "filter_chains": list{object{"filters": list{manager}}},
			}},
			"clusters": list{cluster},
		},
	})
	if err != nil {
		return nil, err
	}
	cert, key, err := l.mesh.leaf(roleDoor)
	return map[string][]byte{"envoy.json": config, "cert.pem": cert, "key.pem": key, "ca.pem": l.mesh.ca.PEM()}, err
}
