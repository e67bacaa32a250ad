// Package manifest lists what a run was made of, so that two runs can be held
// against each other: what differs besides what is meant to.
package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/model"
	"github.com/windtunnel/windtunnel/internal/plan"
	"github.com/windtunnel/windtunnel/internal/store"
)

// Factor is a class of what can differ between two runs.
type Factor string

// The factors. Whatever is of the declared one may differ; FactorObserved is
// what the variants really did, and follows from the others.
const (
	FactorVersion  Factor = "version"  // of windtunnel and of the programs that ran
	FactorHost     Factor = "host"     // kernel, CPU, memory, control groups
	FactorConfig   Factor = "config"   // of the app, of layers and of protocols
	FactorStudy    Factor = "study"    // everything else that the study asks for
	FactorObserved Factor = "observed" // shown, and never a reason to refuse
)

// Factors are those that can be declared.
func Factors() []Factor { return []Factor{FactorVersion, FactorHost, FactorConfig} }

// Entry is one line of a manifest.
type Entry struct {
	Factor Factor
	Value  string
}

// Manifest is everything about a run that must be the same for two runs to be
// compared, by name. Random order, number of blocks, stop rule and gates are no
// part of it: they change how well a run answers, not what.
type Manifest map[string]Entry

// New lists what a run was made of.
func New(run *store.Run) (Manifest, error) {
	var p plan.Plan
	if err := json.Unmarshal(run.Plan, &p); err != nil {
		return nil, fmt.Errorf("reading the run's plan: %w", err)
	}
	all := Manifest{}
	if err := all.study(p.Study); err != nil {
		return nil, err
	}
	all.sessions(run.Sessions)
	all.ledger(run.Outcomes)
	return all, nil
}

// study adds every value of the study by its path, e.g. "loads.steady.rate".
func (m Manifest) study(s model.Study) error {
	s.Question, s.Gates = "", nil
	d := s.Design
	s.Design = model.Design{Warmup: d.Warmup, Control: d.Control, Primary: d.Primary}
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("listing the study's values: %w", err)
	}
	var values any
	if err := json.Unmarshal(raw, &values); err != nil {
		return fmt.Errorf("listing the study's values: %w", err)
	}
	m.flatten("study", values, FactorStudy)
	return nil
}

// flatten goes down to plain values. What is in a list goes by its name, if it
// has one, so that a change of order is none.
func (m Manifest) flatten(path string, v any, f Factor) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			below := f
			if k == "config" && !strings.HasPrefix(path, "study.loads.") { // of a load, it is what is sent
				below = FactorConfig
			}
			m.flatten(path+"."+k, v[k], below)
		}
		if len(v) == 0 {
			m[path] = Entry{f, "{}"}
		}
	case []any:
		for i, x := range v {
			name := strconv.Itoa(i + 1)
			if named, ok := x.(map[string]any); ok {
				if s, ok := named["name"].(string); ok && s != "" {
					name = s
				}
			}
			m.flatten(path+"."+name, x, f)
		}
	case float64:
		m[path] = Entry{f, strconv.FormatFloat(v, 'f', -1, 64)}
	default:
		m[path] = Entry{f, fmt.Sprint(v)}
	}
}

// sessions adds versions and hosts; a run that was resumed elsewhere has several.
func (m Manifest) sessions(all []store.Session) {
	for _, s := range all {
		m.also("windtunnel", FactorVersion, s.Version)
		h := s.Host
		m.also("host.os", FactorHost, h.OS)
		m.also("host.kernel", FactorHost, h.Kernel)
		m.also("host.arch", FactorHost, h.Arch)
		m.also("host.cpu", FactorHost, h.CPU)
		m.also("host.cores", FactorHost, strconv.Itoa(h.Cores))
		// Memory as whole GiB: a few pages more or less are the kernel's.
		m.also("host.memory", FactorHost, fmt.Sprintf("%.0f GiB", float64(h.MemoryBytes)/(1<<30)))
		m.also("host.virtual machine", FactorHost, h.Virtualised)
		m.also("host.TCP congestion control", FactorHost, h.Congestion)
		m.also("host.idle CPUs", FactorHost, h.IdleCPUs)
		m.also("host.control groups", FactorHost, h.Cgroups)
		m.also("host.rootless", FactorHost, strconv.FormatBool(h.Rootless))
		m.also("host.generator's CPUs", FactorHost, fmt.Sprint(h.GeneratorCPUs))
		m.also("host.other CPUs", FactorHost, fmt.Sprint(h.OtherCPUs))
	}
}

// ledger adds the programs that ran, and what was seen of the variants.
func (m Manifest) ledger(outcomes []model.Outcome) {
	shown := []string{model.FactWireProtocol, model.FactMTLS, model.FactLevel, model.FactProxies, model.FactMTU, model.FactBalancing}
	// Of a program out of an image its digest: the image may have several names.
	programs := []string{model.FactProgram, model.FactDigest}
	seen := map[string]map[string]bool{}
	for i := range outcomes {
		o := &outcomes[i]
		for _, f := range o.Ledger {
			if !slices.Contains(programs, f.Key) && !slices.Contains(shown, f.Key) {
				continue
			}
			name := "observed." + o.Trial.Variant + "." + f.Key
			if seen[name] == nil {
				seen[name] = map[string]bool{}
			}
			seen[name][f.Value] = true
		}
	}
	for name, values := range seen {
		factor := FactorObserved
		if slices.ContainsFunc(programs, func(key string) bool { return strings.HasSuffix(name, "."+key) }) {
			factor = FactorVersion
		}
		m[name] = Entry{factor, strings.Join(slices.Sorted(maps.Keys(values)), "; ")}
	}
}

// also adds a value; several different ones are listed.
func (m Manifest) also(name string, f Factor, value string) {
	e, there := m[name]
	switch {
	case !there:
		m[name] = Entry{f, value}
	case !slices.Contains(strings.Split(e.Value, " and "), value):
		m[name] = Entry{f, e.Value + " and " + value}
	}
}

// Change is one line in which two manifests differ. Empty: it is not there.
type Change struct {
	Factor Factor `json:"factor"`
	Name   string `json:"name"`
	A      string `json:"a"`
	B      string `json:"b"`
}

// Diff lists what differs, by name.
func Diff(a, b Manifest) []Change {
	names := maps.Clone(a)
	maps.Copy(names, b)
	changes := []Change{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a[name].Value != b[name].Value {
			changes = append(changes, Change{names[name].Factor, name, a[name].Value, b[name].Value})
		}
	}
	return changes
}

// Undeclared are the changes that are neither of the declared factor nor what
// was only observed.
func Undeclared(all []Change, declared Factor) []Change {
	var rest []Change
	for _, c := range all {
		if c.Factor != declared && c.Factor != FactorObserved {
			rest = append(rest, c)
		}
	}
	return rest
}

// Text lists changes, at most as wide as asked.
func Text(all []Change, columns int) string {
	var b strings.Builder
	for _, c := range all {
		b.WriteString(fit(fmt.Sprintf("  %-8s  %s", c.Factor, c.Name), columns) + "\n")
		for _, line := range []string{"A: " + orAbsent(c.A), "B: " + orAbsent(c.B)} {
			b.WriteString(fit("            "+line, columns) + "\n")
		}
	}
	return b.String()
}

func orAbsent(s string) string {
	if s == "" {
		return "(not there)"
	}
	return s
}

// fit cuts what is too long.
func fit(text string, room int) string {
	text = strings.ReplaceAll(text, "\n", " ")
	if utf8.RuneCountInString(text) <= room {
		return text
	}
	return string([]rune(text)[:max(0, room-2)]) + ".."
}
