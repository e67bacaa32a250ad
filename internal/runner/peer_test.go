package runner

import "testing"

func TestPeerURI(t *testing.T) {
	t.Parallel()
	for told, want := range map[string]string{
		"":                "",
		"spiffe://a/sa/b": "spiffe://a/sa/b",
		"By=spiffe://x;Hash=00;URI=spiffe://a/sa/b": "spiffe://a/sa/b",
	} {
		if got := peerURI(told); got != want {
			t.Errorf("%q: %q, want %q", told, got, want)
		}
	}
}
