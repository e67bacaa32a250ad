package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/sample/cgroup"
	"github.com/windtunnel/windtunnel/internal/sys"
	"github.com/windtunnel/windtunnel/internal/target/lab"
)

// bed is what all tools are measured on: two network namespaces joined by a
// pair of virtual Ethernet devices, nothing between them, and one CPU for each.
type bed struct {
	client, server         *sys.Netns
	clientAddr, serverAddr netip.Addr
	clientCPUs, serverCPUs []int
	group                  *sys.Cgroup // of this lab; every process has one below it
	dir                    string      // for files; removed with the lab
	env                    []string
	serial                 int
}

func newBed(target *lab.Target, congestion string) (*bed, error) {
	host := target.Host()
	b := &bed{
		clientAddr: netip.MustParseAddr("10.0.0.1"), serverAddr: netip.MustParseAddr("10.0.0.2"),
		clientCPUs: host.GeneratorCPUs, serverCPUs: host.OtherCPUs, dir: target.Dir(),
		env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + target.Dir()},
	}
	if len(b.serverCPUs) > 1 { // one core each, as many as there may be
		b.serverCPUs = b.serverCPUs[:1]
	}
	groups, err := sys.FindCgroups()
	if err != nil {
		return nil, fmt.Errorf("CPU time is read from control groups: %w", err)
	}
	if b.group, err = groups.Lab(target.ID()); err != nil {
		return nil, fmt.Errorf("CPU time is read from control groups: %w", err)
	}
	return b, b.connect(congestion)
}

func (b *bed) connect(congestion string) error {
	both, err := sys.NewNetnses(2)
	if err != nil {
		return err
	}
	b.client, b.server = both[0], both[1]
	if congestion != "" {
		set := func() error { return sys.WriteSysctl("net/ipv4/tcp_congestion_control", congestion) }
		if err = errors.Join(b.client.Do(set), b.server.Do(set)); err != nil {
			return err
		}
	}
	near, err := sys.OpenNet(b.client)
	if err != nil {
		return err
	}
	defer near.Close()
	far, err := sys.OpenNet(b.server)
	if err != nil {
		return err
	}
	defer far.Close()
	const mtu, prefix = 1500, 24
	if err := near.AddVeth(sys.Veth{Name: device, Peer: device, PeerNS: b.server, MTU: mtu}); err != nil {
		return err
	}
	_, nearErr := near.Configure(device, netip.PrefixFrom(b.clientAddr, prefix))
	_, farErr := far.Configure(device, netip.PrefixFrom(b.serverAddr, prefix))
	return errors.Join(nearErr, farErr, near.LoopbackUp(), far.LoopbackUp())
}

const device = "eth0"

func (b *bed) close() error { return errors.Join(b.client.Close(), b.server.Close()) }

// at is the server's address at a port.
func (b *bed) at(port uint16) netip.AddrPort { return netip.AddrPortFrom(b.serverAddr, port) }

// file writes a file that a tool needs, and returns its path.
func (b *bed) file(name, content string) (string, error) {
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return "", fmt.Errorf("writing a tool's file: %w", err)
	}
	return path, nil
}

// process is a program on the bed, with its own control group.
type process struct {
	*sys.Process
	name  string // of the program
	sub   string // of its control group
	group *sys.Cgroup
	out   bytes.Buffer // unless piped; complete when the process is done
}

// side is where a program runs.
type side bool

const (
	clientSide side = false
	serverSide side = true
)

func (b *bed) start(where side, piped bool, argv ...string) (*process, error) {
	b.serial++
	name := strconv.Itoa(b.serial) + "-" + filepath.Base(argv[0])
	group, err := b.group.Sub(name)
	if err != nil {
		return nil, fmt.Errorf("making a control group: %w", err)
	}
	p := &process{name: filepath.Base(argv[0]), sub: name, group: group}
	c := sys.Command{Argv: argv, Env: b.env, Dir: b.dir, Netns: b.client, CPUs: b.clientCPUs, Group: group, Piped: piped}
	if where == serverSide {
		c.Netns, c.CPUs = b.server, b.serverCPUs
	}
	if !piped {
		c.Output = &p.out
	}
	if err = group.Bind(c.CPUs); err != nil {
		return nil, fmt.Errorf("binding %s to CPUs: %w", name, err)
	}
	if p.Process, err = sys.Start(c); err != nil {
		return nil, err
	}
	return p, nil
}

// cpu is the CPU time that the process and its children have used, in seconds.
func (p *process) cpu(ctx context.Context) (float64, error) {
	s := cgroup.Sampler{Subjects: func() []cgroup.Subject { return []cgroup.Subject{{Name: p.name, Group: p.group}} }}
	readings, err := s.Sample(ctx, nil)
	if err != nil {
		return 0, err
	}
	return readings[0].Value, nil
}

// peakRSS is the most memory that the process has had resident so far, in bytes.
func (p *process) peakRSS() (float64, error) {
	b, err := sys.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/status")
	if err != nil {
		return 0, fmt.Errorf("reading the memory of %s: %w", p.name, err)
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("the kernel does not tell the memory of %s", p.name)
}

// wait waits for the process's end, at most that long.
func (p *process) wait(ctx context.Context, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.Done():
		return nil
	case <-timer.C:
		return fmt.Errorf("%s has not ended after %s: %s", p.name, limit, p.said())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end stops the process and removes its control group.
func (b *bed) end(ctx context.Context, p *process) error {
	return errors.Join(p.Stop(context.WithoutCancel(ctx)), b.group.RemoveSub(p.sub))
}

// said is the end of what the process printed.
func (p *process) said() string {
	const most = 400
	s := strings.TrimSpace(p.out.String())
	return s[max(0, len(s)-most):]
}

// traffic is what the server's device has received.
type traffic struct{ bytes, packets float64 }

func (b *bed) traffic() (traffic, error) {
	var t traffic
	err := b.server.Do(func() error {
		raw, err := sys.ReadFile("/proc/thread-self/net/dev")
		if err != nil {
			return fmt.Errorf("reading the server's device: %w", err)
		}
		for line := range strings.Lines(string(raw)) {
			name, rest, ok := strings.Cut(line, ":")
			if !ok || strings.TrimSpace(name) != device {
				continue
			}
			_, err := fmt.Sscan(rest, &t.bytes, &t.packets)
			return err
		}
		return errors.New("the server has no " + device)
	})
	return t, err
}
