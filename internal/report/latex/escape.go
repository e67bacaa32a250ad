package latex

import (
	"fmt"
	"strings"
	"unicode"
)

// special are characters that LaTeX reads as commands, or that its standard
// fonts show as others.
func special(r rune) string {
	return map[rune]string{
		'\\': `\textbackslash{}`, '{': `\{`, '}': `\}`, '$': `\$`, '&': `\&`, '#': `\#`, '%': `\%`, '_': `\_`,
		'^': `\textasciicircum{}`, '~': `$\sim$`, '<': `$<$`, '>': `$>$`, '|': `$|$`, '"': `''`, '[': `{[}`, ']': `{]}`, '`': `{}` + "`" + `{}`,
		'µ': `$\mu$`, 'μ': `$\mu$`, '±': `$\pm$`, '×': `$\times$`, '÷': `$\div$`, '≥': `$\geq$`, '≤': `$\leq$`, '≠': `$\neq$`, '≈': `$\approx$`, '∞': `$\infty$`,
		'→': `$\rightarrow$`, '–': `--`, '—': `---`, '…': `\ldots{}`, '“': "``", '”': `''`, '‘': "`", '’': `'`, '·': `$\cdot$`, '°': `$^\circ$`, '§': `\S{}`,
		'\u00a0': `~`, '\u202f': `\,`, '\t': ` `, '\n': ` `, '\r': ` `,
	}[r]
}

// Escape makes any text LaTeX that prints it, with the standard fonts. Letters
// that these do not have are written as their code points.
func Escape(text string) string {
	var b strings.Builder
	before := rune(0)
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch known := special(r); {
		case known != "":
			b.WriteString(known)
		case r == '-' && before == '-':
			b.WriteString("{}-") // two are no dash
		case r >= ' ' && r < unicode.MaxASCII:
			b.WriteRune(r)
		case strings.ContainsRune("ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿ", r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\texttt{U+%04X}`, r)
		}
		before = r
	}
	return b.String()
}
