package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// wanted are the modules that tests need; those that they depend on come with
// them.
func wanted() []string {
	return []string{
		"veth", "bridge", "dummy", "ifb", "tun", "macvlan",
		"vxlan", "geneve", "ip_gre", "ipip", "wireguard", "openvswitch", "vport-vxlan", "vport-geneve", "vport-gre",
		"sch_netem", "sch_tbf", "sch_htb", "sch_prio", "sch_ingress", "cls_bpf", "cls_u32", "cls_matchall", "act_mirred",
		"nf_tables", "nft_ct", "nft_nat", "nft_chain_nat", "nft_masq", "nft_redir", "nft_numgen", "nft_hash", "nft_limit", "nft_log",
		"nft_queue", "nft_reject", "nft_reject_inet", "nft_reject_ipv4", "nft_compat", "nft_tproxy", "nft_socket", "nft_quota",
		"nfnetlink_queue", "nft_fib", "nft_fib_ipv4", "nft_fib_inet", "nft_connlimit", "nft_flow_offload", "nft_synproxy", "nft_tunnel",
		"nft_reject_bridge", "nft_meta_bridge", "nf_conntrack_bridge", "br_netfilter", "nf_conntrack_netlink",
		"af_packet", "packet_diag", "inet_diag", "tcp_diag", "udp_diag",
	}
}

// kernel is an unpacked package linux-image-*.
type kernel struct {
	image   string
	release string
	modules map[string]string // paths by name
}

func findKernel(dir string) (kernel, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return kernel{}, fmt.Errorf("%s has %d kernels, not one: test/vm/get-kernel %s downloads one", dir, len(images), dir)
	}
	k := kernel{image: images[0], modules: map[string]string{}}
	k.release = strings.TrimPrefix(filepath.Base(k.image), "vmlinuz-")
	for _, lib := range []string{"lib", "usr/lib"} {
		err = filepath.WalkDir(filepath.Join(dir, lib, "modules", k.release, "kernel"), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok && err == nil && !d.IsDir() {
				k.modules[moduleName(name)] = path
			}
			return err
		})
		if err != nil {
			return kernel{}, fmt.Errorf("looking for the kernel's modules: %w", err)
		}
	}
	if len(k.modules) == 0 {
		return kernel{}, fmt.Errorf("%s has no modules (*.ko)", dir)
	}
	return k, nil
}

// moduleName is what modules call each other.
func moduleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// module is one that is to be loaded.
type module struct {
	name  string
	image []byte
}

// closure are the modules and all they depend on, in the order of loading. What
// is no module of this kernel is built in, or missing, which tests find out.
func (k kernel) closure(names []string) ([]module, error) {
	var all []module
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		name = moduleName(name)
		path := k.modules[name]
		if seen[name] || path == "" {
			return nil
		}
		seen[name] = true
		image, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a module: %w", err)
		}
		needs, err := dependencies(image)
		if err != nil {
			return fmt.Errorf("reading the module %s: %w", path, err)
		}
		for _, n := range needs {
			if err = add(n); err != nil {
				return err
			}
		}
		all = append(all, module{name: name, image: image})
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// dependencies are the modules that must be loaded before this one.
func dependencies(image []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("it has no .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	return parseInfo(info), nil
}

// parseInfo reads what modinfo shows: "depends=a,b" and "softdep=pre: c d".
func parseInfo(info []byte) (needs []string) {
	for line := range bytes.SplitSeq(info, []byte{0}) {
		key, value, _ := strings.Cut(string(line), "=")
		switch key {
		case "depends":
			needs = append(needs, strings.Split(value, ",")...)
		case "softdep":
			before, _, _ := strings.Cut(value, "post:")
			needs = append(needs, strings.Fields(strings.TrimPrefix(strings.TrimSpace(before), "pre:"))...)
		}
	}
	return slices.DeleteFunc(needs, func(s string) bool { return s == "" })
}
