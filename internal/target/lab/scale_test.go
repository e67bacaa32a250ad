package lab_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

// Every pod of a full-sized lab reaches a pod of another node, all at the same
// time: the kernel's limit of 1,024 neighbours is for all namespaces together.
func TestThousandPodsReachEachOther(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("makes 1,000 pods")
	}
	const nodes, perNode = 10, 100
	site := labtest.Site(t, nodesOf(nodes, perNode))
	for n := range nodes {
		to := listen(t, site, fmt.Sprintf("pod-%d-0", n), "here")
		from := (n + 1) % nodes
		for p := range perNode {
			pod := labtest.Pod(t, site, fmt.Sprintf("pod-%d-%d", from, p))
			in, ok := pod.(model.Namespace)
			if !ok {
				t.Fatalf("%T has no namespace", pod)
			}
			var conn net.Conn
			err := in.InNetwork(func() (err error) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
				return err
			})
			if err != nil {
				t.Fatalf("from %s to %s: %v", pod.Name(), to, err)
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}
}
