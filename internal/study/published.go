package study

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/model"
)

// PublishedConfig is what another source says about the same question.
type PublishedConfig struct {
	Source    string         `json:"source" jsonschema:"minLength=1" jsonschema_description:"Where the figures are from: author, year, table."`
	URL       string         `json:"url,omitempty" jsonschema_description:"Where it can be read."`
	Tolerance Percent        `json:"tolerance,omitempty" jsonschema_description:"How much a published figure may be off, as a share of it: rounding, or reading it off a picture."`
	Table     Text           `json:"table,omitempty" jsonschema_description:"The published table as CSV with a header line."`
	Map       *MapConfig     `json:"map,omitempty" jsonschema_description:"Which column of the table is what."`
	Claims    []ClaimsConfig `json:"claims,omitempty" jsonschema:"maxItems=100" jsonschema_description:"What the source says in words."`
}

// MapConfig says which column of a published table is what.
type MapConfig struct {
	Where   map[string]string       `json:"where,omitempty" jsonschema_description:"Only rows that have these values in these columns."`
	Variant *KeyConfig              `json:"variant,omitempty" jsonschema_description:"The column that tells a row's variant, where the columns do not."`
	Load    *KeyConfig              `json:"load,omitempty" jsonschema_description:"The column that tells a row's load, where the columns do not. If absent, and there is but one load: that."`
	Columns map[string]ColumnConfig `json:"columns" jsonschema_description:"The columns with figures, by the name in the header. Others are left out."`
}

// KeyConfig is a column that names variants or loads.
type KeyConfig struct {
	Column string            `json:"column" jsonschema_description:"Its name in the header."`
	Names  map[string]string `json:"names,omitempty" jsonschema_description:"The study's name for each value; rows with other values are left out. If absent: the values are the study's own names."`
}

// ColumnConfig is a column with figures.
type ColumnConfig struct {
	Metric       string `json:"metric,omitempty" jsonschema_description:"What the figures are. If absent, say with incomparable why it is none of ours."`
	Unit         string `json:"unit" jsonschema:"minLength=1" jsonschema_description:"What the figures are counted in, such as ms, s, us, /s, %, Gbit/s, MiB."`
	Variant      string `json:"variant,omitempty" jsonschema_description:"The variant of all figures in the column."`
	Load         string `json:"load,omitempty" jsonschema_description:"The load of all figures in the column."`
	Incomparable string `json:"incomparable,omitempty" jsonschema_description:"Why these figures are shown and not judged, e.g. that they were measured from another point."`
}

// ClaimsConfig is one sentence of a source, taken apart.
type ClaimsConfig struct {
	Claim    string `json:"claim" jsonschema:"minLength=1" jsonschema_description:"The sentence."`
	Metric   string `json:"metric" jsonschema_description:"What it is about."`
	Load     string `json:"load,omitempty" jsonschema_description:"The load. If absent: every load is judged."`
	Left     string `json:"left" jsonschema_description:"The variant that it speaks of."`
	Relation string `json:"relation" jsonschema:"enum=lower,enum=higher,enum=equal" jsonschema_description:"What left is, compared with right."`
	Right    string `json:"right" jsonschema_description:"The other variant."`
	By       string `json:"by,omitempty" jsonschema_description:"By how much, as a share of right: 30%, or from 29.6% to 48.5%. Without from, it is the size itself, to the tolerance."`
}

func (b *builder) published(cs []PublishedConfig, s model.Study) []model.Published {
	var all []model.Published
	for i, c := range cs {
		path := at("published", i)
		p := model.Published{Source: strings.TrimSpace(c.Source), URL: c.URL, Tolerance: float64(c.Tolerance)}
		if c.URL != "" && !strings.HasPrefix(c.URL, "https://") && !strings.HasPrefix(c.URL, "http://") {
			b.reject(path+".url", fmt.Sprintf("%q is no address: it begins with https:// or http://", c.URL))
		}
		switch {
		case b.bad[path] || b.bad[path+".table"] || b.bad[path+".map"]:
		case (c.Map == nil) != (c.Table == ""):
			b.reject(path, "has one of table and map: a table needs a map, which says what its columns are")
		case c.Map != nil:
			p.Cells = b.publishedCells(c, s, path)
		case len(c.Claims) == 0:
			b.reject(path, "has nothing to compare with: give it a table and a map, or claims")
		}
		for j, claim := range c.Claims {
			p.Claims = append(p.Claims, b.publishedClaim(claim, s, at(path+".claims", j)))
		}
		all = append(all, p)
	}
	return all
}

// named reports a variant or a load that the study does not have, unless its
// own list could not be read.
func (b *builder) named(path, what, name string, s model.Study) {
	all, whole := variantNames(s), b.wholeVariants
	if what == "load" {
		all, whole = loadNames(s), b.wholeLoads
	}
	if !b.bad[path] && whole && !slices.Contains(all, name) {
		b.reject(path, unknown(what, name, all))
	}
}

func loadNames(s model.Study) []string {
	all := make([]string, len(s.Loads))
	for i, l := range s.Loads {
		all[i] = l.Name
	}
	return all
}

// published is a table with the map that reads it.
type published struct {
	*builder
	study  model.Study
	path   string
	about  MapConfig
	header []string
	cells  []model.PublishedCell
	used   map[string]bool // names of the map that some row has
}

func (b *builder) publishedCells(c PublishedConfig, s model.Study, path string) []model.PublishedCell {
	t := &published{builder: b, study: s, path: path, about: *c.Map, used: map[string]bool{}}
	rows, err := readTable(string(c.Table))
	if err != nil {
		b.reject(path+".table", err.Error())
		return nil
	}
	t.header = rows[0].fields
	if !t.check() {
		return nil
	}
	for _, r := range rows[1:] {
		t.row(r)
	}
	t.unused()
	if len(t.cells) == 0 && !b.bad[path+".map"] {
		b.reject(path+".map", "chooses no figure of the table")
	}
	return t.cells
}

// tableRow is a row with the line that it begins in.
type tableRow struct {
	line   int
	fields []string
}

// readTable reads CSV with a header whose names are unique.
func readTable(text string) ([]tableRow, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace = true
	r.Comment = '#'
	var rows []tableRow
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("is not CSV with a header line: %w", err)
		}
		line, _ := r.FieldPos(0)
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		rows = append(rows, tableRow{line, fields})
	}
	if len(rows) < 2 { //nolint:mnd // the header and one row
		return nil, errors.New("has no row below its header line")
	}
	for i, name := range rows[0].fields {
		if name == "" || slices.Contains(rows[0].fields[:i], name) {
			return nil, fmt.Errorf("column %d of the table's header is %q: names are needed, each once", i+1, name)
		}
	}
	return rows, nil
}

// check looks at the map alone: its columns, variants, loads, metrics and units.
func (t *published) check() bool {
	before := len(t.problems)
	path := t.path + ".map"
	for _, column := range slices.Sorted(maps.Keys(t.about.Where)) {
		t.oneOf(join(path+".where", column), "column", column, t.header)
	}
	for what, key := range map[string]*KeyConfig{"variant": t.about.Variant, "load": t.about.Load} {
		if key == nil {
			continue
		}
		t.oneOf(join(path, what)+".column", "column", key.Column, t.header)
		for _, value := range slices.Sorted(maps.Keys(key.Names)) {
			t.named(join(join(path, what)+".names", value), what, key.Names[value], t.study)
		}
	}
	if len(t.about.Columns) == 0 && !t.bad[path+".columns"] {
		t.reject(path+".columns", "names no column")
	}
	for _, name := range slices.Sorted(maps.Keys(t.about.Columns)) {
		t.column(name, t.about.Columns[name], join(path+".columns", name))
	}
	return len(t.problems) == before
}

func (t *published) column(name string, c ColumnConfig, path string) {
	if t.bad[path] || !t.oneOf(path, "column", name, t.header) {
		return
	}
	switch {
	case c.Variant != "":
		t.named(path+".variant", "variant", c.Variant, t.study)
	case t.about.Variant == nil:
		t.reject(path, "does not say which variant it is about: with variant here, or with map.variant for the rows")
	}
	switch {
	case c.Load != "":
		t.named(path+".load", "load", c.Load, t.study)
	case t.about.Load == nil && len(t.study.Loads) > 1:
		t.reject(path, "does not say which load it is about: with load here, or with map.load for the rows")
	}
	if c.Metric == "" {
		if c.Incomparable == "" {
			t.reject(path, "needs a metric or, where it is none of ours, incomparable with the reason")
		}
		return
	}
	if !t.oneOf(path+".metric", "metric", c.Metric, t.known.Metrics) || t.bad[path+".unit"] {
		return
	}
	if units := unitsOf(c.Metric); units[c.Unit] == 0 {
		t.reject(path+".unit", fmt.Sprintf("%q is no unit of %s: it is one of %s", c.Unit, c.Metric, strings.Join(slices.Sorted(maps.Keys(units)), ", ")))
	}
}

// unitsOf are the units that a metric's figures can be counted in, and how much
// of our own unit each is.
func unitsOf(metric string) map[string]float64 {
	switch quantityOf(metric) {
	case "response", "service", "rtt", "jitter", "cpu":
		return map[string]float64{"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1}
	case "success", "loss", "reordered", "duplicated":
		return map[string]float64{"%": 0.01, "share": 1}
	case "rate", "messages", "datagrams":
		return map[string]float64{"/s": 1, "k/s": 1e3}
	case "goodput":
		return map[string]float64{"bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}
	case "memory":
		return map[string]float64{"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
	case "retransmits":
		return map[string]float64{"/GB": 1}
	}
	return map[string]float64{"1": 1}
}

// row adds the figures of a row that the map chooses.
func (t *published) row(r tableRow) {
	for column, value := range t.about.Where {
		if r.fields[slices.Index(t.header, column)] != value {
			return
		}
	}
	variant, ok := t.key("variant", t.about.Variant, r)
	load, also := t.key("load", t.about.Load, r)
	if !ok || !also {
		return
	}
	if t.about.Load == nil && len(t.study.Loads) == 1 {
		load = t.study.Loads[0].Name
	}
	for i, name := range t.header {
		c, mapped := t.about.Columns[name]
		if mapped {
			t.figure(r, i, c, orElse(c.Variant, variant), orElse(c.Load, load))
		}
	}
}

func orElse(first, second string) string {
	if first != "" {
		return first
	}
	return second
}

// key is the study's name of a row's variant or load; false: it is not chosen.
func (t *published) key(what string, key *KeyConfig, r tableRow) (string, bool) {
	if key == nil {
		return "", true
	}
	value := r.fields[slices.Index(t.header, key.Column)]
	if len(key.Names) == 0 {
		all := variantNames(t.study)
		if what == "load" {
			all = loadNames(t.study)
		}
		if !slices.Contains(all, value) {
			t.reject(join(t.path+".map", what), fmt.Sprintf("line %d of the table: %s; say with names which is which", r.line, unknown(what, value, all)))
			return "", false
		}
		return value, true
	}
	name, chosen := key.Names[value]
	t.used[join(what, value)] = chosen
	return name, chosen
}

// unused reports names that no row has: slips of the keyboard.
func (t *published) unused() {
	for what, key := range map[string]*KeyConfig{"variant": t.about.Variant, "load": t.about.Load} {
		if key == nil {
			continue
		}
		for _, value := range slices.Sorted(maps.Keys(key.Names)) {
			if !t.used[join(what, value)] {
				t.reject(join(join(t.path+".map", what)+".names", value), fmt.Sprintf("no chosen row has %q in column %s", value, key.Column))
			}
		}
	}
}

// figure adds one figure to its cell; rows of one cell are repetitions.
func (t *published) figure(r tableRow, column int, c ColumnConfig, variant, load string) {
	text := r.fields[column]
	if text == "" || text == "-" {
		return
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		t.reject(t.path+".table", fmt.Sprintf("line %d, column %s: %q is not a number", r.line, t.header[column], text))
		return
	}
	factor := 1.0
	if c.Metric != "" {
		factor = unitsOf(c.Metric)[c.Unit]
	}
	cell := model.PublishedCell{Variant: variant, Load: load, Metric: c.Metric, Unit: c.Unit, Column: t.header[column], Incomparable: c.Incomparable}
	i := slices.IndexFunc(t.cells, func(p model.PublishedCell) bool {
		return p.Variant == variant && p.Load == load && p.Metric == c.Metric && (c.Metric != "" || p.Column == cell.Column)
	})
	if i < 0 {
		t.cells, i = append(t.cells, cell), len(t.cells)
	}
	t.cells[i].Values = append(t.cells[i].Values, value*factor)
	t.cells[i].Printed = append(t.cells[i].Printed, text)
}

func (b *builder) publishedClaim(c ClaimsConfig, s model.Study, path string) model.PublishedClaim {
	claim := model.PublishedClaim{Text: strings.TrimSpace(c.Claim), Metric: c.Metric, Load: c.Load, Left: c.Left, Relation: c.Relation, Right: c.Right}
	if b.bad[path] {
		return claim
	}
	b.oneOf(path+".metric", "metric", c.Metric, b.known.Metrics)
	b.named(path+".left", "variant", c.Left, s)
	b.named(path+".right", "variant", c.Right, s)
	if c.Left == c.Right && !b.bad[path+".right"] {
		b.reject(path+".right", fmt.Sprintf("%q is left, too", c.Right))
	}
	if c.Load != "" {
		b.named(path+".load", "load", c.Load, s)
	}
	if c.By == "" || b.bad[path+".by"] {
		return claim
	}
	if c.Relation == model.RelationEqual {
		b.reject(path+".by", "has no meaning where left and right are equal; design.equivalence is the margin")
		return claim
	}
	var err error
	if claim.From, claim.To, err = shares(c.By); err != nil {
		b.reject(path+".by", err.Error())
	}
	return claim
}

// shares reads "30%" or "from 29.6% to 48.5%". More than 100% is possible: of
// what is higher.
func shares(text string) (from, to float64, err error) {
	words := strings.Fields(text)
	const ends = 4
	switch {
	case len(words) == 1:
		words = []string{"from", words[0], "to", words[0]}
	case len(words) != ends || words[0] != "from" || words[2] != "to":
		return 0, 0, fmt.Errorf("%q is no size: write 30%%, or from 29.6%% to 48.5%%", text)
	}
	for i, into := range []*float64{&from, &to} {
		word := words[2*i+1]
		if !regexPercent.MatchString(word) {
			return 0, 0, fmt.Errorf("%q is not a percentage: write it with its sign, such as 30%%", word)
		}
		if *into, err = strconv.ParseFloat(strings.TrimSuffix(word, "%")+"e-2", 64); err != nil {
			return 0, 0, fmt.Errorf("%q is too large", word)
		}
	}
	if from > to || to == 0 {
		return 0, 0, fmt.Errorf("%q does not go from a smaller share to a larger one above zero", text)
	}
	return from, to, nil
}
