package latex_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/report/latex"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`50 % & $3_000 #1 {a}`: `50 \% \& \$3\_000 \#1 \{a\}`,
		`\input{/etc/passwd}`:  `\textbackslash{}input\{/etc/passwd\}`,
		"~ < 20 µs ± 3":        `$\sim$ $<$ 20 $\mu$s $\pm$ 3`,
		"--resume":             `-{}-resume`,
		"[+1, +2]\nnext":       `{[}+1, +2{]} next`,
		"naïve 日本\x00":         `naïve \texttt{U+65E5}\texttt{U+672C}\texttt{U+0000}`,
		"\xff":                 `\texttt{U+FFFD}`,
	} {
		if got := latex.Escape(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// Whatever the text, no command of it is left, and braces stay balanced.
func FuzzEscape(f *testing.F) {
	for _, seed := range []string{`\end{document}`, "}{", "$$", "%", "^^M", "日", "a--b", "``"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := latex.Escape(text)
		bare := strings.NewReplacer(`\{`, "", `\}`, "", `\$`, "", `\&`, "", `\#`, "", `\%`, "", `\_`, "").Replace(got)
		if strings.Count(bare, "{") != strings.Count(bare, "}") || strings.Count(bare, "$")%2 != 0 || strings.ContainsAny(bare, "&#%_") {
			t.Errorf("%q is %q", text, got)
		}
	})
}
