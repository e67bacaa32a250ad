package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the load says comes before the variant, and that before the study; what
// none of them says is not limited.
func TestLimitsOf(t *testing.T) {
	t.Parallel()
	s := Study{
		Limits: ComponentLimits{ComponentApp: {CPU: 1, Memory: 256 << 20}},
		Variants: []Variant{
			{Name: "free"},
			{Name: "tight", Limits: ComponentLimits{ComponentSidecar: {CPU: 0.15, Memory: 128 << 20}, ComponentApp: {CPU: 0.5}}},
		},
		Loads: []Load{{Name: "steady"}, {Name: "tighter", Limits: ComponentLimits{ComponentSidecar: {CPU: 0.05}}}},
	}
	for _, tt := range []struct{ variant, load, want string }{
		{"free", "steady", "app 1000m CPU, 256 MiB"},
		{"free", "tighter", "app 1000m CPU, 256 MiB; sidecar 50m CPU"},
		{"tight", "steady", "app 500m CPU, 256 MiB; sidecar 150m CPU, 128 MiB"},
		{"tight", "tighter", "app 500m CPU, 256 MiB; sidecar 50m CPU, 128 MiB"},
	} {
		if diff := cmp.Diff(tt.want, s.LimitsOf(tt.variant, tt.load).String()); diff != "" {
			t.Errorf("%s, %s: %s", tt.variant, tt.load, diff)
		}
	}
	if got := (Study{Variants: s.Variants[:1], Loads: s.Loads[:1]}).LimitsOf("free", "steady"); len(got) != 0 {
		t.Errorf("no limits are %v", got)
	}
	for _, limited := range []Study{s, {Variants: s.Variants}, {Loads: s.Loads}} {
		if !limited.Limited() {
			t.Errorf("%+v has limits", limited)
		}
	}
	if (Study{Variants: s.Variants[:1], Loads: s.Loads[:1]}).Limited() {
		t.Error("no limits are some")
	}
	if s.Limits[ComponentApp].CPU != 1 {
		t.Error("looking them up has changed them")
	}
}
