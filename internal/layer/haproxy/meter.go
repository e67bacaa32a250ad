package haproxy

import (
	"context"
	"strconv"
	"sync"

	"github.com/windtunnel/windtunnel/internal/model"
)

var _ model.Meter = (*Layer)(nil)

// Requests are those that clients' sidecars have answered, or servers' where
// clients have none; connections at L4.
func (l *Layer) Requests(ctx context.Context, _ model.Site, service string) (map[int]uint64, error) {
	name := outbound + service
	if !l.config.outbound() {
		name = inbound + service
	}
	var mu sync.Mutex
	all := map[int]uint64{}
	err := l.each(func(sc *sidecar) error {
		raw, err := sc.ask(ctx, "show stat")
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		return eachRow(raw, func(get func(column string) string) {
			if get("pxname") == name && get("svname") == "FRONTEND" {
				byClass(get, all)
			}
		})
	})
	return all, err
}

// byClass adds what a frontend has answered, by class of status.
func byClass(get func(column string) string, all map[int]uint64) {
	add := func(class int, column string) {
		n, err := strconv.ParseUint(get(column), 10, 64)
		if err == nil && n > 0 { // an empty cell: there is none
			all[class] += n
		}
	}
	if get("mode") != "http" {
		add(0, "stot")
		return
	}
	const first, last = 1, 5
	for class := first; class <= last; class++ {
		add(class, "hrsp_"+strconv.Itoa(class)+"xx")
	}
}
