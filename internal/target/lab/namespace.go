package lab

import "github.com/windtunnel/windtunnel/internal/model"

var _ model.NamespaceFile = (*pod)(nil)

// NetworkPath is a file by which programs can enter the pod's namespace.
func (p *pod) NetworkPath() string { return p.ns.Path() }
