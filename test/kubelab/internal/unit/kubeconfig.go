package unit

import (
	"encoding/json"
	"fmt"

	"github.com/windtunnel/windtunnel/test/kubelab/internal/pki"
)

// Access is how somebody reaches one cluster.
type Access struct {
	Context string
	Server  string
	CA      []byte
	User    pki.Pair
}

// Kubeconfig writes a kubeconfig with one context each; the first is current.
// It is JSON, which is YAML.
func Kubeconfig(all ...Access) ([]byte, error) {
	type object = map[string]any
	var clusters, users, contexts []object
	for _, a := range all {
		clusters = append(clusters, object{"name": a.Context, "cluster": object{
			"server": a.Server, "certificate-authority-data": a.CA,
		}})
		users = append(users, object{"name": a.Context, "user": object{
			"client-certificate-data": a.User.Cert, "client-key-data": a.User.Key,
		}})
		contexts = append(contexts, object{"name": a.Context, "context": object{
			"cluster": a.Context, "user": a.Context,
		}})
	}
	data, err := json.MarshalIndent(object{
		"apiVersion": "v1", "kind": "Config", "current-context": all[0].Context,
		"clusters": clusters, "users": users, "contexts": contexts,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return data, nil
}
