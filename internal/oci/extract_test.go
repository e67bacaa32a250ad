package oci

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"testing"
)

// file is an entry of a layer: name=content, name->target of a symbolic link,
// name=>target of a hard one, or name/ of a folder.
func layerOf(tb testing.TB, files ...string) opener {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Mode: 0o755, Typeflag: tar.TypeReg}
		content := ""
		switch name, target, hard := strings.Cut(f, "=>"); {
		case hard:
			h.Typeflag, h.Name, h.Linkname = tar.TypeLink, name, target
		case strings.Contains(f, "->"):
			h.Typeflag = tar.TypeSymlink
			h.Name, h.Linkname, _ = strings.Cut(f, "->")
		case strings.HasSuffix(f, "/"):
			h.Typeflag, h.Name = tar.TypeDir, f
		default:
			h.Name, content, _ = strings.Cut(f, "=")
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(h); err != nil {
			tb.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return archive(b.Bytes())
}

func archive(raw []byte) opener {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
}

func TestExtract(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		layers  [][]string
		path    string
		want    string
		problem string
	}{
		"a file":                        {[][]string{{"usr/", "usr/bin/p=one"}}, "/usr/bin/p", "one", ""},
		"written otherwise":             {[][]string{{"./usr/bin/p=one"}}, "/usr/./lib/../bin/p", "one", ""},
		"the upper layer's":             {[][]string{{"p=one"}, {"p=two"}}, "/p", "two", ""},
		"the later of one layer":        {[][]string{{"p=one", "p=two"}}, "/p", "two", ""},
		"taken away":                    {[][]string{{"a/p=one"}, {"a/.wh.p="}}, "/a/p", "", "it has no /a/p"},
		"its folder taken away":         {[][]string{{"a/b/p=one"}, {".wh.a="}}, "/a/b/p", "", "it has no /a/b/p"},
		"taken away and made again":     {[][]string{{"a/p=one"}, {".wh.a=", "a/p=two"}}, "/a/p", "two", ""},
		"an opaque folder":              {[][]string{{"a/p=one", "a/q=one"}, {"a/.wh..wh..opq=", "a/q=two"}}, "/a/p", "", "it has no /a/p"},
		"in an opaque folder":           {[][]string{{"a/q=one"}, {"a/q=two", "a/.wh..wh..opq="}}, "/a/q", "two", ""},
		"a folder replaced by a link":   {[][]string{{"a/p=one", "b/p=two"}, {"a->b"}}, "/a/p", "two", ""},
		"a folder replaced by a file":   {[][]string{{"a/p=one"}, {"a=two"}}, "/a/p", "", "it has no /a/p"},
		"a link":                        {[][]string{{"usr/bin/p=one", "p->usr/bin/p"}}, "/p", "one", ""},
		"an absolute link":              {[][]string{{"usr/bin/p=one", "x/p->/usr/bin/p"}}, "/x/p", "one", ""},
		"a link to its folder":          {[][]string{{"usr/bin/p=one", "bin->usr/bin"}}, "/bin/p", "one", ""},
		"a hard link":                   {[][]string{{"usr/bin/p=one", "q=>usr/bin/p"}}, "/q", "one", ""},
		"a link over a layer":           {[][]string{{"p=one", "q->p"}, {"p=two"}}, "/q", "two", ""},
		"a link out of the root":        {[][]string{{"etc/passwd=the image's", "p->../../../../etc/passwd"}}, "/p", "the image's", ""},
		"an absolute one to the host's": {[][]string{{"p->/etc/hostname"}}, "/p", "", "it has no /etc/hostname"},
		"a name out of the root":        {[][]string{{"../../p=one"}}, "/p", "one", ""},
		"a hard link out of the root":   {[][]string{{"p=>../../etc/hostname"}}, "/p", "", "it has no /etc/hostname"},
		"links in a ring":               {[][]string{{"a->b", "b->a"}}, "/a", "", "too many links"},
		"a hard link to itself":         {[][]string{{"a=>a"}}, "/a", "", "too many links"},
		"a folder":                      {[][]string{{"a/", "a/p=one"}}, "/a", "", "no ordinary file"},
		"the root":                      {[][]string{{"a=one"}}, "/", "", "no ordinary file"},
		"nothing":                       {nil, "/p", "", "it has no /p"},
		"a program too large":           {[][]string{{"p=" + strings.Repeat("x", 101)}}, "/p", "", "programs of up to 100"},
		"too large in all":              {[][]string{{"p=one", "q=" + strings.Repeat("x", 600)}, {"r=" + strings.Repeat("x", 600)}}, "/p", "", "more than 1000 bytes"},
		"too many files":                {[][]string{{"a=", "b=", "c=", "d=", "e=", "f=", "g=", "h=", "i="}, {"j=", "k="}}, "/a", "", "more than 10 files"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var layers []opener
			for _, files := range tt.layers {
				layers = append(layers, layerOf(t, files...))
			}
			var got bytes.Buffer
			err := extract(&got, layers, tt.path, limits{bytes: 1000, program: 100, entries: 10, links: 5})
			switch {
			case tt.problem == "" && (err != nil || got.String() != tt.want):
				t.Errorf("got %q, %v; want %q", got.String(), err, tt.want)
			case tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)):
				t.Errorf("got %q, %v; want an error that says %q", got.String(), err, tt.problem)
			}
		})
	}
}

// endless is an archive's first header, and then bytes for ever.
type endless struct{ io.Reader }

func (endless) Close() error { return nil }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestBomb(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int64{"one endless file": 1 << 40, "an endless end": 0} {
		var b bytes.Buffer
		if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "p", Size: size, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		bomb := func() (io.ReadCloser, error) {
			return endless{io.MultiReader(bytes.NewReader(b.Bytes()), zeros{})}, nil
		}
		if err := extract(io.Discard, []opener{bomb}, "/p", limits{bytes: 1000, program: 1000, entries: 10, links: 5}); err == nil {
			t.Errorf("%s was read to its end", name)
		}
	}
}

func FuzzExtract(f *testing.F) {
	for _, files := range [][]string{{"usr/bin/p=one", "p->usr/bin/p"}, {"p=one", ".wh.p="}, {"p=>p"}, {"../p=one"}} {
		layer, err := layerOf(f, files...)()
		if err != nil {
			f.Fatal(err)
		}
		raw, err := io.ReadAll(layer)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, "/p")
	}
	f.Fuzz(func(t *testing.T, raw []byte, inside string) {
		var got bytes.Buffer
		most := limits{bytes: 1 << 16, program: 1 << 10, entries: 100, links: 5}
		if err := extract(&got, []opener{archive(raw), archive(raw)}, inside, most); err == nil && int64(got.Len()) > most.program {
			t.Errorf("%d bytes", got.Len())
		}
	})
}
