package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The kubelet sets these for the whole host.
func sysctls() []string {
	return []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

type saved struct {
	Boot   string
	Values map[string]string
}

func boot() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot's ID: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// saveSysctls keeps the values from before the first start since the boot.
func saveSysctls(path string) error {
	now, err := boot()
	if err != nil {
		return err
	}
	if old, missing := readSysctls(path); missing == nil && old.Boot == now {
		return nil
	}
	s := saved{Boot: now, Values: map[string]string{}}
	for _, name := range sysctls() {
		value, unread := os.ReadFile(filepath.Join("/proc/sys", name))
		if errors.Is(unread, fs.ErrNotExist) {
			continue
		}
		if unread != nil {
			return fmt.Errorf("reading the kernel setting %s: %w", name, unread)
		}
		s.Values[name] = strings.TrimSpace(string(value))
	}
	data, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(path+".half", data, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".half", path)
	}
	if err != nil {
		return fmt.Errorf("keeping the kernel's settings: %w", err)
	}
	return nil
}

func readSysctls(path string) (saved, error) {
	var s saved
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}

func restoreSysctls(path string) error {
	s, err := readSysctls(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the kernel's old settings: %w", err)
	}
	if now, err := boot(); err != nil || now != s.Boot {
		return err
	}
	var problems []error
	for name, value := range s.Values {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644); err != nil {
			problems = append(problems, fmt.Errorf("setting %s back to %s: %w", name, value, err))
		}
	}
	return errors.Join(problems...)
}
