package claims

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// operator is how two sides are said to stand to each other.
type operator string

const (
	opLess    operator = "<"
	opGreater operator = ">"
	opAtMost  operator = "<="
	opAtLeast operator = ">="
	opEqual   operator = "="
	// opRatio is a ratio from low to high of the left to the right side.
	opRatio operator = "ratio"
)

// expression is a claim, taken apart.
type expression struct {
	metric string // canonical; of columns empty
	left   string // a selection of runs, or a column
	op     operator
	right  string  // likewise; empty where value is meant
	value  float64 // threshold, in the metric's unit
	// low and high are the ratio that opRatio claims.
	low, high float64
	in        []string // selections that both sides must be in
	except    []string // and that they must not be in
}

const grammar = `write e.g. "p95 of A < B in C", "p99 of A < 20ms", "mean of A is 20-30 % lower than B", "rate of A is 2.5 times B", "p50 of A = B"`

// parseExpression takes a claim apart; of columns there is no "METRIC of".
func parseExpression(text string, columns bool) (expression, error) {
	var e expression
	rest := e.clauses(strings.Join(strings.Fields(text), " "))
	if !columns {
		metric, after, ok := strings.Cut(rest, " of ")
		if !ok {
			return e, fmt.Errorf("the claim %q names no metric: %s", text, grammar)
		}
		if e.metric, ok = canonical(metric); !ok {
			return e, fmt.Errorf("no metric %q: known are %s, and Windtunnel's own such as response.p99", metric, strings.Join(metrics(), ", "))
		}
		rest = after
	}
	if err := e.sides(rest); err != nil {
		return e, fmt.Errorf("the claim %q: %w", text, err)
	}
	return e, nil
}

// clauses cuts off "in X", "at X" and "except X", from the end.
func (e *expression) clauses(text string) string {
	for {
		at, word := -1, ""
		for _, w := range []string{" in ", " at ", " except "} {
			if i := strings.LastIndex(text, w); i > at {
				at, word = i, w
			}
		}
		if at < 0 {
			return text
		}
		selection := strings.TrimSpace(text[at+len(word):])
		if word == " except " {
			e.except = append(e.except, selection)
		} else {
			e.in = append(e.in, selection)
		}
		text = text[:at]
	}
}

func (e *expression) sides(text string) error {
	number := `(\d+(?:\.\d+)?)`
	share := regexp.MustCompile(`^(.+?) (?:is|are) ` + number + `(?:\s*(?:-|to)\s*` + number + `)?\s*% (lower|less|smaller|faster|higher|more|greater|slower) than (.+)$`)
	times := regexp.MustCompile(`^(.+?) (?:is|are) ` + number + `(?:\s*(?:-|to)\s*` + number + `)?\s*(?:times|x) (?:that of |of )?(.+)$`)
	if m := share.FindStringSubmatch(text); m != nil {
		lo, hi := bounds(m[2], m[3])
		e.left, e.op, e.right = m[1], opRatio, m[5]
		if slices.Contains([]string{"higher", "more", "greater", "slower"}, m[4]) {
			e.low, e.high = 1+lo/100, 1+hi/100
		} else {
			e.low, e.high = 1-hi/100, 1-lo/100
		}
		return nil
	}
	if m := times.FindStringSubmatch(text); m != nil {
		e.left, e.op, e.right = m[1], opRatio, m[4]
		e.low, e.high = bounds(m[2], m[3])
		return nil
	}
	m := regexp.MustCompile(`^(.+?) (<=|>=|<|>|=) (.+)$`).FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("neither <, >, <=, >=, = nor \"is N %% lower than\" stands in it: %s", grammar)
	}
	e.left, e.op, e.right = m[1], operator(m[2]), m[3]
	if q := regexp.MustCompile(`^` + number + `\s*(ns|us|µs|ms|s|%|/s|k/s)?$`).FindStringSubmatch(m[3]); q != nil {
		v, err := strconv.ParseFloat(q[1], 64)
		if err != nil {
			return err
		}
		e.value, e.right = v*unit(q[2]), ""
	}
	return nil
}

// bounds are those of a printed range; a single number covers what rounds to it.
func bounds(lo, hi string) (low, high float64) {
	a, _ := strconv.ParseFloat(lo, 64) // digits, by the expression
	if hi == "" {
		half := lastDigit(lo) / 2 //nolint:mnd // what rounds to it
		return a - half, a + half
	}
	b, _ := strconv.ParseFloat(hi, 64)
	return a - lastDigit(lo)/2, b + lastDigit(hi)/2 //nolint:mnd // what rounds to them
}

// lastDigit is what one of the last printed digit is worth.
func lastDigit(text string) float64 {
	_, decimals, _ := strings.Cut(text, ".")
	worth := 1.0
	for range decimals {
		worth /= 10
	}
	return worth
}

// unit is what one of it is in seconds, shares or per second.
func unit(name string) float64 {
	switch name {
	case "ns":
		return 1e-9
	case "us", "µs":
		return 1e-6
	case "ms":
		return 1e-3
	case "%":
		return 1e-2
	case "k/s", "k":
		return 1e3
	}
	return 1
}
