package sys

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// dumpTries is how often a list is asked for that changes while it is given out.
const dumpTries = 100

// dump lists what the kernel knows of a kind. Where others change something
// meanwhile, the kernel says that the list may be incomplete: it is asked for
// again.
func dump[T any](list func() ([]T, error)) (all []T, err error) {
	for range dumpTries {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}
