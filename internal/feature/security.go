package feature

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// identity are the checks of who is whom.
func identity() []Check {
	hellos := func(pods ...string) (all []Hello) {
		for _, p := range pods {
			all = append(all, Hello{Pod: p, Lowest: tls.VersionTLS12, Highest: tls.VersionTLS13})
		}
		return all
	}
	roles := []Burst{ask20(Burst{}), ask20(Burst{From: Stranger})}
	return []Check{
		{
			Group: groupSecurity, Name: "certificates issued", Asks: "every pod shows a certificate with an identity",
			Hellos: hellos(Pods()...), Judge: issued,
		}, {
			Group: groupSecurity, Name: "certificate rotation", Asks: "a pod's certificate is replaced while requests pass, and none fails",
			Hellos: hellos("v1-a"), Rotate: true, Bursts: []Burst{ask20(Burst{Count: 150, Over: 3 * time.Second / 2})},
			Judge: rotated,
		}, {
			Group: groupSecurity, Name: "peer authentication", Asks: "servers are told who asks; plaintext, and TLS without a certificate, is refused",
			Hellos: hellos("v1-a"), Bursts: []Burst{ask20(Burst{}), ask20(Burst{From: Outside, To: ToPods})},
			Judge: authenticated,
		}, {
			Group: groupSecurity, Name: "authorization: allow", Asks: "only clients of one identity are let in",
			Rules:  func(Addresses) model.Rules { return model.Rules{Allow: []string{model.RoleClient}} },
			Bursts: roles, Judge: authorized,
		}, {
			Group: groupSecurity, Name: "authorization: deny", Asks: "clients of one identity are refused",
			Rules:  func(Addresses) model.Rules { return model.Rules{Deny: []string{Stranger}} },
			Bursts: roles, Judge: authorized,
		},
	}
}

func issued(s Seen) Result {
	var serials, names []string
	shown := 0
	for _, h := range s.Shown {
		if h.Identity == "" {
			continue
		}
		shown++
		if !slices.Contains(serials, h.Serial) {
			serials = append(serials, h.Serial)
		}
		if !slices.Contains(names, h.Identity) {
			names = append(names, h.Identity)
		}
	}
	r := Result{Verdict: No, Sent: fmt.Sprintf("%d TLS handshakes", len(s.Shown)), Seen: "no TLS: " + trouble(s.Shown)}
	if shown == 0 {
		return r
	}
	one := s.Shown[0]
	r.Seen = fmt.Sprintf("shown by %d pods: %d different of %s by %q, valid for %s",
		shown, len(serials), strings.Join(names, ", "), one.Issuer, one.Until.Sub(one.From).Round(time.Minute))
	r.Verdict = Partly
	if shown == len(s.Shown) {
		r.Verdict = Yes
	}
	return r
}

// trouble is why there was no handshake.
func trouble(all []Shown) string {
	for _, h := range all {
		if h.Version == 0 && h.Error != "" {
			return h.Error
		}
	}
	return "no server answers a ClientHello"
}

func rotated(s Seen) Result {
	before, after := s.Shown[0], s.Shown[len(s.Shown)-1]
	failed := len(s.Replies[0]) - answered(s.Replies[0])
	r := Result{Verdict: No, Sent: sent(s) + " meanwhile"}
	const digits = 8
	switch {
	case before.Serial == "":
		r.Seen = "there is no certificate: " + trouble(s.Shown)
	case !s.Rotated:
		r.Seen = "no layer of the stack rotates certificates"
	case before.Serial == after.Serial:
		r.Seen = "the same certificate as before"
	default:
		r.Verdict = Yes
		r.Seen = fmt.Sprintf("serial %.*s... before, %.*s... after; %d requests failed", digits, before.Serial, digits, after.Serial, failed)
		if failed > 0 {
			r.Verdict = Partly
		}
	}
	return r
}

// peers are the identities that servers were told of those who sent a burst.
func peers(s Seen, replies []Reply) (told int, names []string) {
	sent := map[string]bool{}
	for _, r := range replies {
		sent[r.Name] = true
	}
	for _, pod := range Pods() {
		for _, one := range s.Got[pod].Requests {
			uri := peerURI(one.Header[strings.ToLower(headerPeer)])
			if !sent[one.Name] || uri == "" {
				continue
			}
			told++
			if !slices.Contains(names, uri) {
				names = append(names, uri)
			}
		}
	}
	return told, names
}

// peerURI finds the client's identity in an x-forwarded-client-cert.
func peerURI(told string) string {
	for _, part := range strings.FieldsFunc(told, func(r rune) bool { return r == ';' || r == ',' }) {
		if uri, ok := strings.CutPrefix(part, "URI="); ok {
			return uri
		}
	}
	return ""
}

func authenticated(s Seen) Result {
	told, names := peers(s, s.Replies[0])
	plain := answered(s.Replies[1])
	without := "TLS without a certificate: refused"
	accepted := s.Shown[0].Version != 0 && s.Shown[0].Error == ""
	switch {
	case s.Shown[0].Version == 0:
		without = "TLS: not spoken"
	case accepted:
		without = "TLS without a certificate: accepted"
	}
	who := "nobody"
	if len(names) > 0 {
		who = strings.Join(names, ", ")
	}
	r := Result{Verdict: No, Sent: sent(s) + ", 1 handshake", Seen: fmt.Sprintf(
		"the servers were told %s for %s; plaintext answered: %s; %s", who, of(told, s.Replies[0]), of(plain, s.Replies[1]), without)}
	known := told >= len(s.Replies[0]) && len(names) == 1 && answered(s.Replies[0]) == len(s.Replies[0])
	refused := plain == 0 && !accepted
	switch {
	case known && refused:
		r.Verdict = Yes
	case known || refused && answered(s.Replies[0]) == len(s.Replies[0]):
		r.Verdict = Partly
	}
	return r
}

// authorized judges a burst that is to be let in and one that is not.
func authorized(s Seen) Result {
	right, wrong := answered(s.Replies[0]), answered(s.Replies[1])
	r := Result{Verdict: No, Sent: sent(s), Seen: fmt.Sprintf("%s: 200 for %s; %s: 200 for %s%s",
		Client, of(right, s.Replies[0]), Stranger, of(wrong, s.Replies[1]), others(s.Replies[1]))}
	if right == len(s.Replies[0]) && wrong == 0 {
		r.Verdict = Yes
	}
	return r
}

// others are the statuses of what was refused.
func others(replies []Reply) string {
	counts := map[int]int{}
	var codes []int
	for _, r := range replies {
		if r.Status == statusOK {
			continue
		}
		if counts[r.Status] == 0 {
			codes = append(codes, r.Status)
		}
		counts[r.Status]++
	}
	slices.Sort(codes)
	var text strings.Builder
	for _, c := range codes {
		what := strconv.Itoa(c)
		if c == 0 {
			what = "no answer"
		}
		fmt.Fprintf(&text, ", %s for %d", what, counts[c])
	}
	return text.String()
}

// offer is one handshake of the check of TLS, and whether a good server takes it.
type offer struct {
	name    string
	hello   Hello
	accepts bool
}

// offers are what is offered, from what is right to what is long broken.
func offers() []offer {
	at := func(lowest, highest uint16, ciphers ...uint16) Hello {
		return Hello{Pod: "v1-a", Lowest: lowest, Highest: highest, Ciphers: ciphers}
	}
	const v10, v11, v12, v13 = tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13
	return []offer{
		{"TLS 1.3", at(v13, v13), true},
		{"TLS 1.2", at(v12, v12), true},
		{"TLS 1.1", at(v11, v11), false},
		{"TLS 1.0", at(v10, v10), false},
		{"1.2 with 3DES", at(v12, v12, tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA), false},
		{"1.2 with RC4", at(v12, v12, tls.TLS_ECDHE_ECDSA_WITH_RC4_128_SHA), false},
		{"1.2 without forward secrecy", at(v12, v12, tls.TLS_RSA_WITH_AES_128_GCM_SHA256), false},
	}
}

func encryption() []Check {
	var hellos []Hello
	for _, o := range offers() {
		hellos = append(hellos, o.hello)
	}
	return []Check{{
		Group: groupSecurity, Name: "TLS versions and ciphers", Asks: "TLS 1.3 is spoken; TLS 1.0, 1.1 and weak ciphers are refused",
		Hellos: hellos,
		Judge: func(s Seen) Result {
			return ciphers(offers(), s.Shown)
		},
	}}
}

func ciphers(all []offer, shown []Shown) Result {
	var taken, refused []string
	weak := false
	for i, o := range all {
		if shown[i].Version == 0 {
			refused = append(refused, o.name)
			continue
		}
		taken = append(taken, o.name+" ("+tls.CipherSuiteName(shown[i].Cipher)+")")
		weak = weak || !o.accepts
	}
	r := Result{Verdict: No, Sent: fmt.Sprintf("%d TLS handshakes", len(all)), Seen: "no TLS: " + trouble(shown)}
	if len(taken) == 0 {
		return r
	}
	r.Seen = "taken: " + strings.Join(taken, ", ") + "; refused: " + strings.Join(refused, ", ")
	r.Verdict = Yes
	if weak || shown[0].Version != tls.VersionTLS13 {
		r.Verdict = Partly
	}
	return r
}
