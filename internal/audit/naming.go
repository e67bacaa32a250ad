package audit

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Name is which system a run is of, under which load, for the how manieth time.
type Name struct {
	Variant, Load, Repetition string
	// Factors are the named parts of the path, with those three.
	Factors map[string]string
	// Words are all of path and name, in order, lower case.
	Words []string
}

// Words splits a text at everything that is neither letter, digit nor a dot
// between digits; lower case.
func Words(text string) []string {
	text = strings.ToLower(text)
	var all []string
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' }) {
		for _, part := range splitDots(w) {
			if part != "" {
				all = append(all, part)
			}
		}
	}
	return all
}

// splitDots splits at dots, but for those of numbers: "p99.9", "1.5mbit".
func splitDots(w string) []string {
	var all []string
	start := 0
	for i := range len(w) {
		digits := i > 0 && i+1 < len(w) && w[i-1] >= '0' && w[i-1] <= '9' && w[i+1] >= '0' && w[i+1] <= '9'
		if w[i] == '.' && !digits {
			all = append(all, w[start:i])
			start = i + 1
		}
	}
	return append(all, w[start:])
}

// quantity is a number with a unit, e.g. 10rps, 30s, 50mcpu.
func quantity(w string) (n float64, unit string, ok bool) {
	at := strings.IndexFunc(w, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if at <= 0 {
		return 0, "", false
	}
	n, err := strconv.ParseFloat(w[:at], 64)
	if err != nil || strings.ContainsFunc(w[at:], func(r rune) bool { return !unicode.IsLetter(r) && r != '%' }) {
		return 0, "", false
	}
	return n, w[at:], true
}

// kind sorts a word of a path.
type kind int

const (
	kindWord   kind = iota
	kindLoad        // a quantity or a protocol
	kindNumber      // a repetition
	kindNoise       // a date, or a word such as "run"
)

func protocols() []string {
	return []string{"http", "http1", "http2", "h1", "h2", "https", "grpc", "tcp", "udp", "icmp", "tcp4", "quic", "h3"}
}

func kindOf(w string) kind {
	const date = 6
	markers := []string{
		"run", "runs", "rep", "repetition", "iter", "iteration", "trial", "attempt", "try", "result", "results", "report", "test", "output", "out",
		"queries", "per", "second", "procs", "for", "at", "running", "starting",
		"json", "log", "gob", "csv", "txt", "gz", "data", "final", "raw", "hdr", "hgrm", "bin",
	}
	switch {
	case slices.Contains(protocols(), w):
		return kindLoad
	case slices.Contains(markers, w):
		return kindNoise
	case strings.Trim(w, "0123456789") == "":
		if len(w) >= date {
			return kindNoise
		}
		return kindNumber
	case regexp.MustCompile(`^(\d+t\d+|t\d\d+|\d+z|\d{8}.*)$`).MatchString(w): // part of a date
		return kindNoise
	case regexp.MustCompile(`^[qcdnrp]\d+[a-z]{0,3}$`).MatchString(w): // q6000, c1, d60s
		return kindLoad
	case regexp.MustCompile(`^(run|rep|iter|trial|try|r|v)\d+$`).MatchString(w):
		return kindNumber
	}
	if _, _, ok := quantity(w); ok {
		return kindLoad
	}
	return kindWord
}

// Source is what a run's name is made of: its path without what all paths have
// in common, and the name that the file has for it.
type Source struct {
	Path, Name string
	// Protocol is what the file says of it, in lower case: where path and name
	// hold several protocols, the others are of other runs.
	Protocol string
	// Fallback is what the load is called where neither path nor name tell.
	Fallback string
}

// Names names runs by themselves: quantities and protocols are the load, numbers
// the repetition, and of all other words those that not every run has are the
// variant. Runs that would share all of it are told apart by their place.
func Names(sources []Source) []Name {
	words := make([][]string, len(sources))
	count := map[string]int{}
	for i, s := range sources {
		words[i] = Words(withoutTimes(withoutEndings(s.Path) + "/" + s.Name))
		if slices.Contains(words[i], s.Protocol) {
			words[i] = slices.DeleteFunc(words[i], func(w string) bool { return w != s.Protocol && slices.Contains(protocols(), w) })
		}
		for _, w := range slices.Compact(slices.Sorted(slices.Values(words[i]))) {
			count[w]++
		}
	}
	constant := func(w string) bool { return len(sources) > 1 && count[w] == len(sources) }
	all := make([]Name, len(sources))
	seen := map[string]int{}
	for i, s := range sources {
		n := sorted(words[i], constant)
		if n.Load == "" {
			n.Load = s.Fallback
		}
		key := n.Variant + "\x00" + n.Load + "\x00" + n.Repetition
		seen[key]++
		if n.Repetition == "" || seen[key] > 1 {
			n.Repetition = strings.TrimPrefix(n.Repetition+"."+strconv.Itoa(seen[key]), ".")
		}
		n.Words = words[i]
		n.Factors = map[string]string{"variant": n.Variant, "load": n.Load, "rep": n.Repetition}
		all[i] = n
	}
	return all
}

// withoutTimes takes dates and times of day out of a name: they tell runs apart,
// but not which of them belong together.
func withoutTimes(text string) string {
	return regexp.MustCompile(`(?i)(?:\b|_)(?:\d{4}-\d{2}-\d{2}(?:[-_ ]?t?\d{2}[-:_]?\d{2}(?:[-:_]?\d{2})?(?:\.\d+)?z?)?|\d{8}[-_t]\d{4,6}z?)(?:\b|_)`).ReplaceAllString(text, "_")
}

func sorted(words []string, constant func(string) bool) Name {
	var variant, load, rep []string
	for _, w := range words {
		switch kindOf(w) {
		case kindLoad:
			if !slices.Contains(load, w) && !constant(w) {
				load = append(load, w)
			}
		case kindNumber:
			if !constant(w) {
				rep = append(rep, strings.TrimLeft(w, "abcdefghijklmnopqrstuvwxyz"))
			}
		case kindWord:
			if !slices.Contains(variant, w) && !constant(w) {
				variant = append(variant, w)
			}
		case kindNoise:
		}
	}
	if len(variant) == 0 {
		variant = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return kindOf(w) != kindWord })
	}
	if len(variant) == 0 {
		variant = []string{"all"}
	}
	return Name{Variant: strings.Join(slices.Compact(variant), "-"), Load: strings.Join(load, "-"), Repetition: strings.Join(rep, ".")}
}

// withoutEndings cuts the endings off a file's name: everything from its first
// dot that does not stand between digits.
func withoutEndings(path string) string {
	dir, file := "", path
	if at := strings.LastIndexByte(path, '/'); at >= 0 {
		dir, file = path[:at+1], path[at+1:]
	}
	parts := splitDots(file)
	if parts[0] == "" {
		return path
	}
	return dir + parts[0]
}

// Stem is a path without its file's endings: files that share it are of one run.
func Stem(path string) string { return withoutEndings(path) }

// Pattern names runs by their paths, e.g. "{variant}-{region}-{rep}/{load}.gob".
type Pattern struct {
	text  string
	match *regexp.Regexp
}

// ParsePattern reads a pattern. What stands between braces is a factor; the
// factors variant, load and rep have a meaning of their own.
func ParsePattern(text string) (Pattern, error) {
	var b strings.Builder
	rest, names := text, 0
	for rest != "" {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(regexp.QuoteMeta(before))
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		if !closed || !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(name) {
			return Pattern{}, fmt.Errorf("the pattern %q has {%s: a factor is a name between braces, of lower-case letters, digits and _", text, after)
		}
		if strings.Contains(b.String(), "(?P<"+name+">") {
			return Pattern{}, fmt.Errorf("the pattern %q has {%s} twice", text, name)
		}
		fmt.Fprintf(&b, "(?P<%s>[^/]+)", name)
		rest = behind
		names++
	}
	if names == 0 {
		return Pattern{}, fmt.Errorf("the pattern %q names no factor: write e.g. {variant}-{rep}/{load}.json", text)
	}
	r, err := regexp.Compile(`(?:^|/)` + b.String() + `(?:\.gz)?$`)
	if err != nil {
		return Pattern{}, fmt.Errorf("the pattern %q: %w", text, err)
	}
	return Pattern{text, r}, nil
}

// Apply names every source whose path fits, and leaves out the others: their
// paths are an error where none fits. Files that end otherwise are tried without
// their endings. What the pattern does not name is as Names says.
func (p Pattern) Apply(sources []Source) (names []Name, fits []bool, err error) {
	names, fits = Names(sources), make([]bool, len(sources))
	some := false
	for i, s := range sources {
		text := s.Path
		m := p.match.FindStringSubmatch(text)
		if m == nil {
			m = p.match.FindStringSubmatch(withoutEndings(text))
		}
		if m == nil {
			continue
		}
		some, fits[i] = true, true
		p.name(&names[i], m)
	}
	if !some && len(sources) > 0 {
		return nil, nil, errors.Join(fmt.Errorf("no file fits the pattern %q; the first is %s", p.text, sources[0].Path))
	}
	return names, fits, nil
}

// name takes the factors of a match; what has no meaning of its own is part of
// the variant where the pattern does not name that.
func (p Pattern) name(n *Name, m []string) {
	factors := map[string]string{}
	var others []string
	for at, name := range p.match.SubexpNames() {
		if name == "" {
			continue
		}
		factors[name] = m[at]
		if name != "variant" && name != "load" && name != "rep" {
			others = append(others, m[at])
		}
	}
	load, rep := n.Load, n.Repetition
	if v, ok := factors["load"]; ok {
		load = v
	}
	if v, ok := factors["rep"]; ok {
		rep = v
	}
	variant := strings.Join(others, "-")
	if v, ok := factors["variant"]; ok {
		variant = strings.Join(append([]string{v}, others...), "-")
	}
	if variant == "" {
		variant = n.Variant
	}
	factors["load"], factors["rep"] = load, rep
	if factors["variant"] == "" {
		factors["variant"] = variant
	}
	n.Variant, n.Load, n.Repetition, n.Factors = variant, load, rep, factors
}
