package sys

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestDumpsAreWhole(t *testing.T) {
	t.Parallel()
	interrupted := func(times int, end error) ([]int, int, error) {
		calls := 0
		all, err := dump(func() ([]int, error) {
			if calls++; calls <= times {
				return []int{1}, netlink.ErrDumpInterrupted
			}
			return []int{1, 2}, end
		})
		return all, calls, err
	}
	if all, calls, err := interrupted(3, nil); err != nil || len(all) != 2 || calls != 4 {
		t.Errorf("after %d calls %v, %v", calls, all, err)
	}
	broken := errors.New("broken")
	if _, calls, err := interrupted(1, broken); !errors.Is(err, broken) || calls != 2 {
		t.Errorf("after %d calls %v", calls, err)
	}
	if _, _, err := interrupted(dumpTries, nil); !errors.Is(err, netlink.ErrDumpInterrupted) {
		t.Errorf("a list that always changes: %v", err)
	}
}
