package sys

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	const limit = 10
	kept := NewTail(limit)
	var all []byte
	for i := range 100 {
		b := bytes.Repeat([]byte{byte('a' + i%26)}, i%7)
		all = append(all, b...)
		if n, err := kept.Write(b); n != len(b) || err != nil {
			t.Fatal(n, err)
		}
		if diff := cmp.Diff(string(all[max(0, len(all)-limit):]), string(kept.Bytes())); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestTailInOneLine(t *testing.T) {
	t.Parallel()
	kept := NewTail(LogLimit)
	if _, err := kept.Write([]byte(" what it\n\tsays\n")); err != nil || kept.Line() != "what it says" {
		t.Errorf("%q, %v", kept.Line(), err)
	}
}
