package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"
)

// job is what the guest is to do; it is in the initramfs.
type job struct {
	Modules []string // in the order of loading
	Argv    []string
	Env     []string
	Dir     string
}

const (
	jobFile   = "/job.json"
	moduleDir = "/modules"
	// packageDir stands for the folder of the test's package, which the host may
	// have at a place that is covered here, such as below /tmp.
	packageDir = "/package"
	testFile   = "/test"
	output     = "/dev/ttyS1" // the other serial line is the kernel's
)

// guest is process 1: it readies the machine, runs the test, says how it
// ended, and turns the machine off.
func guest() {
	code, err := serve()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vmrun: in the guest:", err)
		code = broken
	}
	fmt.Printf("%s%d\n", ending, code)
	syscall.Sync()
	_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF) // then vmrun's limit ends it
}

func serve() (code int, err error) {
	if err = mounts(); err != nil {
		return 0, err
	}
	out, err := os.OpenFile(output, os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("opening the line to the host: %w", err)
	}
	os.Stdout, os.Stderr = out, out
	raw, err := os.ReadFile(jobFile)
	if err != nil {
		return 0, fmt.Errorf("reading the job: %w", err)
	}
	var j job
	if err = json.Unmarshal(raw, &j); err != nil {
		return 0, fmt.Errorf("reading the job: %w", err)
	}
	for _, name := range j.Modules {
		if err = loadModule(filepath.Join(moduleDir, name)); err != nil {
			return 0, err
		}
	}
	if _, err = run(job{Argv: []string{"/bin/busybox", "--install", "-s", "/bin"}, Dir: "/"}, out); err != nil {
		return 0, err
	}
	return run(j, out)
}

func mounts() error {
	var errs []error
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"cgroup2", "/sys/fs/cgroup"}, {"tmpfs", "/tmp"}, {"tmpfs", "/run"},
	} {
		err := os.MkdirAll(m.at, 0o755)
		if err == nil {
			err = syscall.Mount(m.kind, m.at, m.kind, 0, "")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("mounting %s: %w", m.at, err))
		}
	}
	return errors.Join(errs...)
}

func loadModule(path string) error {
	image, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("loading a module: %w", err)
	}
	none := []byte{0}
	_, _, errno := syscall.Syscall(syscall.SYS_INIT_MODULE,
		uintptr(unsafe.Pointer(&image[0])), uintptr(len(image)), uintptr(unsafe.Pointer(&none[0]))) //nolint:gosec // package syscall has no other way
	if errno != 0 && errno != syscall.EEXIST {
		return fmt.Errorf("loading %s: %w", path, errno)
	}
	return nil
}

// run starts a program and waits for it, and for all others that have lost
// their parent.
func run(j job, out *os.File) (code int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", j.Argv[0], err)
	}
	defer null.Close() //nolint:errcheck // only read
	pid, err := syscall.ForkExec(j.Argv[0], j.Argv, &syscall.ProcAttr{
		Dir: j.Dir, Env: j.Env, Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
	})
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", j.Argv[0], err)
	}
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("waiting for %s: %w", j.Argv[0], err)
		case ended == pid && status.Signaled():
			return 0, fmt.Errorf("%s was ended by %s", j.Argv[0], status.Signal())
		case ended == pid:
			return status.ExitStatus(), nil
		}
	}
}
