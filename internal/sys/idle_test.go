package sys

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// The kernel says what it keeps to while the request is held, and a second
// closing does nothing.
func TestKeepAwake(t *testing.T) {
	t.Parallel()
	a := KeepAwake(false)
	if a.Held() {
		if got := wakeUp(t); got > a.limit {
			t.Errorf("the kernel keeps to %s, not to %s", got, a.limit)
		}
		if !strings.HasPrefix(a.String(), "kept awake (PM QoS: ") {
			t.Errorf("held, and yet %q", a)
		}
	} else {
		f, err := os.OpenFile(latencyDevice, os.O_WRONLY, 0)
		if err == nil && os.Geteuid() == 0 && !strings.Contains(a.String(), "idle states") {
			t.Errorf("root has not been heard: %s", a)
		}
		_ = f.Close() // where it could not be opened it is nil
		if !strings.HasPrefix(a.String(), "may sleep: ") {
			t.Errorf("not held, and yet %q", a)
		}
	}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// wakeUp is the longest wake-up that the kernel allows now.
func wakeUp(t *testing.T) time.Duration {
	t.Helper()
	f, err := os.Open(latencyDevice)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	var us int32
	if err = binary.Read(f, binary.NativeEndian, &us); err != nil {
		t.Fatal(err)
	}
	return time.Duration(us) * time.Microsecond
}

func TestDrowsy(t *testing.T) {
	t.Parallel()
	a := KeepAwake(true)
	if a.Held() || a.String() != "may sleep: as was asked for" {
		t.Errorf("drowsy: held %t, %q", a.Held(), a)
	}
	if err := errors.Join(a.Close(), (*Awake)(nil).Close()); err != nil {
		t.Error(err)
	}
}
