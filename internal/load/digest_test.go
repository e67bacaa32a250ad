package load

import "testing"

func FuzzDigest(f *testing.F) {
	for _, s := range []string{"crc32c:9a71bb4c/5", "crc32c:00000000/0", "crc32c:9a71bb4c/5 ", "crc32c:9A71BB4C/5", "crc32c:1/-5", "md5:1/2", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sum, n, err := Digest(text).parts()
		if err != nil {
			return
		}
		if again := (&Answer{Sum: sum, BodyBytes: n}).Digest(); string(again) != text {
			t.Errorf("%q was read as %q", text, again)
		}
	})
}

func TestDigest(t *testing.T) {
	t.Parallel()
	a := Answer{Sum: Sum(Sum(0, []byte("hel")), []byte("lo")), BodyBytes: 5}
	if got := a.Digest(); got != "crc32c:9a71bb4c/5" { // RFC 3720's CRC-32C
		t.Errorf("got %q", got)
	}
	for _, bad := range []Digest{"", "crc32c:9a71bb4c", "crc32c:9a71bb4c/x", "crc32c:9a71bb4c/5 and more", "md5:9a71bb4c/5"} {
		if _, _, err := bad.parts(); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
