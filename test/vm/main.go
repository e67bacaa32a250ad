// Command vmrun runs a test binary inside a Debian kernel under QEMU, for
// `go test -exec vmrun`: there are modules in it that the host's kernel may
// lack. The guest's clock counts instructions, so that neither a busy host nor
// the emulation's slowness shows in its times; nothing is ever measured here.
//
// The same program is the guest's process 1.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// broken is the exit status for everything that is not the test's own.
const broken = 125

func main() {
	if os.Getpid() == 1 {
		guest()
		return
	}
	code, err := host(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "vmrun:", err)
		code = broken
	}
	os.Exit(code)
}

// settings are what the command line says of the machine.
type settings struct {
	kernel string
	limit  time.Duration
	memory int // MiB
	log    bool
}

func host(args []string) (code int, err error) {
	var s settings
	flags := flag.NewFlagSet("vmrun", flag.ContinueOnError)
	flags.StringVar(&s.kernel, "kernel", ".tools/vm/kernel", "`folder` of the unpacked Debian package: boot/vmlinuz-* and lib/modules")
	flags.DurationVar(&s.limit, "limit", 15*time.Minute, "how long the machine may run, by the host's clock")
	flags.IntVar(&s.memory, "memory", 1536, "`MiB` of memory")
	flags.BoolVar(&s.log, "log", false, "print what the kernel says, even if all is well")
	if err = flags.Parse(args); err != nil {
		return 0, err
	}
	if flags.NArg() == 0 {
		return 0, errors.New("usage: vmrun [flags] test-binary [its arguments]")
	}
	k, err := findKernel(s.kernel)
	if err != nil {
		return 0, err
	}
	image, err := os.CreateTemp("", "vmrun-*.cpio")
	if err != nil {
		return 0, fmt.Errorf("making the initramfs: %w", err)
	}
	defer os.Remove(image.Name()) //nolint:errcheck // in the temporary folder
	err = errors.Join(initramfs(image, k, flags.Args()), image.Close())
	if err != nil {
		return 0, fmt.Errorf("making the initramfs: %w", err)
	}
	return s.boot(k, image.Name())
}

// boot runs the machine until it turns itself off.
func (s settings) boot(k kernel, image string) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	says, err := os.CreateTemp("", "vmrun-*.log")
	if err != nil {
		return 0, fmt.Errorf("making the kernel's log: %w", err)
	}
	defer os.Remove(says.Name()) //nolint:errcheck // in the temporary folder
	defer says.Close()           //nolint:errcheck // only read
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", s.machine(k, image, says.Name())...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("starting QEMU: %w", err)
	}
	// `go test` kills this program where its time is over.
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err = cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting QEMU: %w", err)
	}
	code, ended := relay(os.Stdout, out)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("the machine did not end within %s", s.limit)
	case err == nil && !ended:
		err = errors.New("the machine went down before the test had ended")
	}
	if err != nil || s.log {
		_, copied := io.Copy(os.Stderr, says)
		err = errors.Join(err, copied)
	}
	return code, err
}

func (s settings) machine(k kernel, image, says string) []string {
	return []string{
		// A count of instructions is the guest's clock: 2 ns each, and where all
		// its CPUs sleep it jumps.
		"-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off",
		"-machine", "q35", "-cpu", "max,la57=off", "-smp", "1", "-m", strconv.Itoa(s.memory),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-serial", "file:" + says, "-serial", "stdio",
		"-kernel", k.image, "-initrd", image, "-append", "console=ttyS0 panic=-1 mitigations=off",
	}
}

// ending begins the line in which the guest gives the exit status.
const ending = "vmrun: exit status "

// relay copies what the guest prints, but for its last line.
func relay(w io.Writer, r io.Reader) (code int, ended bool) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		line = bytes.ReplaceAll(line, []byte("\r\n"), []byte("\n"))
		if before, status, ok := strings.Cut(string(line), ending); ok {
			code, ended = broken, true
			if n, wrong := strconv.Atoi(strings.TrimSpace(status)); wrong == nil {
				code = n
			}
			line = []byte(before)
		}
		if _, failed := w.Write(line); failed != nil || err != nil {
			return code, ended
		}
	}
}
