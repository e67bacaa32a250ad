package lab

import (
	"errors"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Without control groups a limit is refused, with what is missing and how to
// get it: a study must not go on as if there were one.
func TestNoLimitsWithoutControlGroups(t *testing.T) {
	t.Parallel()
	s := &site{target: &Target{noGroup: "cgroup /sys/fs/cgroup cannot be written\ncgroup /x neither"}}
	_, err := s.Limit(model.ComponentLimits{model.ComponentSidecar: {CPU: 0.15}})
	if !errors.Is(err, model.ErrUnsupported) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"a limit of sidecar 150m CPU", "cannot be written; cgroup /x neither", "Delegate=yes"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}
