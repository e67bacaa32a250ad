package sys

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	// latencyDevice takes the longest time that an idle CPU may take to wake up,
	// as a 32-bit number of microseconds, and the kernel keeps to it for as long
	// as the file is open (Documentation/power/pm_qos_interface.rst).
	latencyDevice = "/dev/cpu_dma_latency"
	idleDriver    = "/sys/devices/system/cpu/cpuidle/current_driver"

	// Of a machine, the first idle state or so: what tuned's profile
	// network-latency asks for. It costs a few microseconds at most, and leaves
	// the other cores their turbo.
	machineWakeUp = 3 * time.Microsecond
	// Of a virtual machine, none at all, as cyclictest asks for: a virtual CPU
	// that sleeps gives its place to others, and may get it back milliseconds late.
	virtualWakeUp = 0
)

// Awake is a request to the kernel not to let idle CPUs sleep deeply.
type Awake struct {
	file  *os.File
	limit time.Duration
	why   error // why there is none
}

// KeepAwake keeps idle CPUs of the host from sleeping deeply, so that whoever
// waits for the clock or for a packet wakes up on time, until it is closed or
// the process ends, in whatever way. It needs the right to write to
// /dev/cpu_dma_latency, which root has, and a kernel that chooses among idle
// states; String says how it came out. Where they may be drowsy, nothing is asked.
func KeepAwake(drowsy bool) *Awake {
	if drowsy {
		return &Awake{why: errors.New("as was asked for")}
	}
	a := &Awake{limit: machineWakeUp}
	if Virtual() {
		a.limit = virtualWakeUp
	}
	driver, err := ReadFile(idleDriver)
	if err != nil || strings.TrimSpace(string(driver)) == "none" {
		a.why = errors.New("the kernel has no idle states to choose from; one booted with idle=poll does not sleep")
		return a
	}
	a.ask()
	return a
}

func (a *Awake) ask() {
	if a.file, a.why = os.OpenFile(latencyDevice, os.O_WRONLY, 0); a.why != nil {
		return
	}
	if err := binary.Write(a.file, binary.NativeEndian, int32(a.limit.Microseconds())); err != nil { //nolint:gosec // G115: one of the constants above
		a.why = errors.Join(fmt.Errorf("limiting how long CPUs take to wake up: %w", err), a.Close())
	}
}

// Virtual says whether the CPUs say that they are a hypervisor's.
func Virtual() bool {
	cpus, err := ReadFile("/proc/cpuinfo")
	return err == nil && bytes.Contains(cpus, []byte("hypervisor"))
}

// Rest lets idle CPUs sleep for a while, as deep as they like.
func (a *Awake) Rest(ctx context.Context, d time.Duration) error {
	if a.Held() {
		if err := a.Close(); err != nil {
			return fmt.Errorf("letting CPUs sleep: %w", err)
		}
		defer a.ask()
	}
	return Sleep(ctx, d)
}

// String says whether idle CPUs sleep.
func (a *Awake) String() string {
	if a.why != nil {
		return "may sleep: " + a.why.Error()
	}
	return fmt.Sprintf("kept awake (PM QoS: %d us)", a.limit.Microseconds())
}

// Held says whether the kernel has taken the request.
func (a *Awake) Held() bool { return a.why == nil }

// Close withdraws the request.
func (a *Awake) Close() error {
	if a == nil || a.file == nil {
		return nil
	}
	file := a.file
	a.file = nil
	return file.Close()
}
