package study

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/invopop/jsonschema"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Cores is a share of CPUs' time, from MinCores to MaxCores, written as in
// Kubernetes: "150m" for 150 thousandths, or a plain number such as 0.5 or 2.
type Cores float64

// The range of a CPU limit. The kernel takes no quota under 1 ms, of periods of
// 100 ms.
const (
	MinCores     Cores = 0.010
	MaxCores     Cores = 1024
	patternCores       = `^[0-9]+(\.[0-9]+)?m?$`
)

// leastMemory is what the kernel itself charges to a group of a few processes;
// less is a slip of the keyboard, such as B for MiB.
const leastMemory Bytes = 1 << 20

var regexCores = regexp.MustCompile(patternCores)

// ParseCores reads a CPU limit such as "150m".
func ParseCores(s string) (Cores, error) {
	if !regexCores.MatchString(s) {
		return 0, fmt.Errorf("%q is not a CPU limit: write cores such as 0.5, or thousandths of one such as 150m", s)
	}
	number, exponent := s, ""
	if s[len(s)-1] == 'm' {
		number, exponent = s[:len(s)-1], "e-3"
	}
	f, err := strconv.ParseFloat(number+exponent, 64)
	if err != nil || Cores(f) < MinCores || Cores(f) > MaxCores {
		return 0, fmt.Errorf("%q is out of range: 10m to 1024 cores (the kernel gives out no less than 1 ms of every 100)", s)
	}
	return Cores(f), nil
}

// UnmarshalText is ParseCores.
func (c *Cores) UnmarshalText(b []byte) (err error) { *c, err = ParseCores(string(b)); return err }

// JSONSchema is a plain number or text such as 150m.
func (Cores) JSONSchema() *jsonschema.Schema {
	least := strconv.FormatFloat(float64(MinCores), 'f', -1, 64)
	return &jsonschema.Schema{
		AnyOf: []*jsonschema.Schema{
			{Type: "number", Minimum: json.Number(least), Maximum: json.Number(strconv.Itoa(int(MaxCores)))},
			{Type: "string", Pattern: patternCores},
		},
		Examples: []any{"150m"},
	}
}

// LimitsConfig is what each component of a pod may use.
type LimitsConfig struct {
	App        *LimitConfig `json:"app,omitempty" jsonschema_description:"Of the app in each pod."`
	Sidecar    *LimitConfig `json:"sidecar,omitempty" jsonschema_description:"Of each sidecar."`
	Gateway    *LimitConfig `json:"gateway,omitempty" jsonschema_description:"Of each proxy on a node: gateways and edges."`
	Network    *LimitConfig `json:"network,omitempty" jsonschema_description:"Of each node's processes that carry packets."`
	Controller *LimitConfig `json:"controller,omitempty" jsonschema_description:"Of each controller that tells switches what to do."`
}

// LimitConfig is what one component may use.
type LimitConfig struct {
	CPU    Cores `json:"cpu,omitempty" jsonschema_description:"CPU time as a share of one core, in periods of 100 ms: 150m is 15 ms of each. If absent: no limit."`
	Memory Bytes `json:"memory,omitempty" jsonschema_description:"Memory, the kernel's for it included, e.g. 128MiB. If absent: no limit."`
}

// limits takes over what may be used; nothing at all is nil.
func (b *builder) limits(c LimitsConfig, path string) model.ComponentLimits {
	var all model.ComponentLimits
	for _, of := range []struct {
		component model.Component
		limit     *LimitConfig
	}{
		{model.ComponentApp, c.App},
		{model.ComponentSidecar, c.Sidecar},
		{model.ComponentGateway, c.Gateway},
		{model.ComponentNetwork, c.Network},
		{model.ComponentController, c.Controller},
	} {
		if of.limit == nil {
			continue
		}
		at := join(path, string(of.component))
		if all == nil {
			all = model.ComponentLimits{}
		}
		all[of.component] = model.Limits{CPU: float64(of.limit.CPU), Memory: uint64(of.limit.Memory)}
		b.refused(at, of.limit.check(b.bad[at] || b.bad[at+".cpu"] || b.bad[at+".memory"]))
	}
	return all
}

func (c LimitConfig) check(reported bool) error {
	switch {
	case reported:
		return nil
	case c == LimitConfig{}:
		return errors.New("limits nothing: give it cpu, memory or both")
	case c.Memory > 0 && c.Memory < leastMemory:
		return &model.ConfigError{Key: "memory", Text: mebibytes(c.Memory) + " is too little to start anything: at least 1MiB"}
	}
	return nil
}

func mebibytes(n Bytes) string {
	const digits = 1000
	return strconv.FormatFloat(math.Round(float64(n)/(1<<20)*digits)/digits, 'f', -1, 64) + "MiB"
}
