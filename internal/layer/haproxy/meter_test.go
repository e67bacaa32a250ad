package haproxy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestByClass(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("testdata", "stat.csv"))
	if err != nil {
		t.Fatal(err)
	}
	const tcp = "# pxname,svname,stot,hrsp_2xx,mode\nout:db,FRONTEND,7,,tcp\n"
	for name, c := range map[string]struct {
		raw, frontend string
		want          map[int]uint64
	}{
		"requests":    {string(raw), "out:server", map[int]uint64{2: 2, 5: 187}},
		"connections": {tcp, "out:db", map[int]uint64{0: 7}},
		"nobody":      {tcp, "out:other", map[int]uint64{}},
	} {
		got := map[int]uint64{}
		err := eachRow([]byte(c.raw), func(get func(string) string) {
			if get("pxname") == c.frontend && get("svname") == "FRONTEND" {
				byClass(get, got)
			}
		})
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
