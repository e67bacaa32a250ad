package study

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// field is one key of a config type.
type field struct {
	key         string
	index       int
	required    bool
	fallback    string // default, as YAML
	description string
	rules       rules
}

// rules are what a field's tags ask of its value.
type rules struct {
	minimum, maximum    int64
	minItems, minLength int
	maxItems            int // 0: any number
	enum                []string
	why, wants          string
}

// or says what should stand here.
func (r rules) or(general string) string {
	if r.wants != "" {
		return r.wants
	}
	return general
}

type fields []field

func (fs fields) find(key string) (field, bool) {
	i := slices.IndexFunc(fs, func(f field) bool { return f.key == key })
	if i < 0 {
		return field{}, false
	}
	return fs[i], true
}

func (fs fields) keys() []string {
	var keys []string
	for _, f := range fs {
		keys = append(keys, f.key)
	}
	return keys
}

// fieldsOf reads the tags of a config type; config.go says what they mean.
func fieldsOf(t reflect.Type) fields {
	var all fields
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, field{
			key: key, index: i, required: options == "",
			fallback: f.Tag.Get("default"), description: f.Tag.Get("jsonschema_description"), rules: rulesOf(f.Tag),
		})
	}
	return all
}

func rulesOf(tag reflect.StructTag) rules {
	r := rules{maximum: math.MaxInt32, why: tag.Get("why"), wants: tag.Get("wants")}
	for part := range strings.SplitSeq(tag.Get("jsonschema"), ",") {
		name, value, _ := strings.Cut(part, "=")
		n, _ := strconv.ParseInt(value, 10, 64) // 0 for words, which are not used as numbers
		switch name {
		case "minimum":
			r.minimum = n
		case "maximum":
			r.maximum = n
		case "minItems":
			r.minItems = int(n)
		case "maxItems":
			r.maxItems = int(n)
		case "minLength":
			r.minLength = int(n)
		case "enum":
			r.enum = append(r.enum, value)
		}
	}
	return r
}
