package main

import (
	"slices"
	"testing"
)

func TestLibrariesOfAProgram(t *testing.T) {
	t.Parallel()
	got, err := loaded("\tlinux-vdso.so.1 (0x1)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n")
	want := []string{"/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if got, err = loaded("\tlibx.so.1 => not found\n"); err == nil {
		t.Errorf("%q of a program whose library is missing", got)
	}
	if got, err = loaded("\tstatically linked\n"); err != nil || len(got) != 0 {
		t.Errorf("%q, %v of a static program", got, err)
	}
}
