package feature

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// of is a number of replies among all of a burst.
func of(n int, replies []Reply) string { return fmt.Sprintf("%d of %d", n, len(replies)) }

// sent says how many requests the bursts were.
func sent(s Seen) string {
	var parts []string
	for _, replies := range s.Replies {
		parts = append(parts, strconv.Itoa(len(replies)))
	}
	return strings.Join(parts, " + ") + " requests"
}

func status(replies []Reply, code int) (n int) {
	for _, r := range replies {
		if r.Status == code {
			n++
		}
	}
	return n
}

// answered are those that succeeded.
func answered(replies []Reply) int { return status(replies, statusOK) }

// from are those that any of the pods has answered, with whatever status.
func from(replies []Reply, pods []string) (n int) {
	for _, r := range replies {
		if slices.Contains(pods, r.From) {
			n++
		}
	}
	return n
}

// received is how many requests of a burst the service's pods have got, tries
// and copies included.
func received(s Seen, replies []Reply) (n int) {
	names := map[string]bool{}
	for _, r := range replies {
		names[r.Name] = true
	}
	for _, pod := range Pods() {
		for _, one := range s.Got[pod].Requests {
			if names[one.Name] {
				n++
			}
		}
	}
	return n
}

func times(replies []Reply) []time.Duration {
	var all []time.Duration
	for _, r := range replies {
		all = append(all, r.Took)
	}
	slices.Sort(all)
	return all
}

func median(replies []Reply) time.Duration {
	if len(replies) == 0 {
		return 0
	}
	return times(replies)[len(replies)/2]
}

func quickest(replies []Reply) time.Duration {
	if len(replies) == 0 {
		return 0
	}
	return times(replies)[0]
}

// short is a time with as many digits as matter.
func short(d time.Duration) string {
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
