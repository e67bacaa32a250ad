//go:build tools

// Package tools names the programs that are built from this module's versions.
package tools

import (
	_ "istio.io/istio/pilot/cmd/pilot-agent"
	_ "istio.io/istio/pilot/cmd/pilot-discovery"
)
