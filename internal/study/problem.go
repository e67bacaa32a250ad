package study

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a study file. Line and Column count
// from 1; Path is the key's, e.g. "variants[2].stack[1].envoy", and empty where
// the problem is the file as a whole.
type Problem struct {
	File         string
	Line, Column int
	Path, Text   string
}

// String prints the problem as compilers do, so that editors can jump to it.
func (p Problem) String() string {
	if p.Path == "" {
		return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.Path, p.Text)
}

// Problems is the error of Parse: everything that is wrong, sorted by position.
type Problems []Problem //nolint:errname // the plural says that it is all of them

// Error prints one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Text, b.Text))
	})
}

// unknown says that a name is not one of the known ones, and which one was
// probably meant.
func unknown(what, name string, known []string) string {
	text := fmt.Sprintf("unknown %s %q", what, name)
	if near := nearest(name, known); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	if len(known) == 0 {
		return text + "; there are none"
	}
	return text + "; known: " + strings.Join(known, ", ")
}

// nearest is the known name that is at most a third of its letters away from
// name, or "".
func nearest(name string, known []string) string {
	best, found := 1+max(1, len(name)/3), ""
	if len(name) > 64 {
		return ""
	}
	for _, k := range known {
		if dist := distance(strings.ToLower(name), strings.ToLower(k)); dist < best && dist < len(k) {
			best, found = dist, k
		}
	}
	return found
}

// distance counts the letters to insert, delete, change or swap with their
// neighbour to turn a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
