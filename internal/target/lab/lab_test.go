package lab_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Commands{"burn": burn, "stubborn": stubborn, "cat": cat, "nest": nest, "exec": execIn, "probe": probe})
}

// burn keeps one CPU busy for as long as its argument says.
func burn(args []string) int {
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return 2
	}
	n := 0
	for start := time.Now(); time.Since(start) < d; {
		n++
	}
	return 0
}

// stubborn ends by force only.
func stubborn([]string) int {
	ignore()
	fmt.Println("ready")
	select {}
}

func cat([]string) int {
	if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
		return 1
	}
	return 0
}

// listen accepts on the address inside a pod and answers every connection with text.
func listen(t *testing.T, site model.Site, pod, text string) netip.AddrPort {
	t.Helper()
	addr := netip.AddrPortFrom(labtest.Pod(t, site, pod).Addr(), 8080)
	labtest.In(t, site, pod, func() error {
		l, err := net.Listen("tcp", addr.String())
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, text)
				_ = c.Close()
			}
		}()
		return nil
	})
	return addr
}

func ask(t *testing.T, site model.Site, from string, to netip.AddrPort) string {
	t.Helper()
	var answer []byte
	labtest.In(t, site, from, func() error {
		c, err := net.DialTimeout("tcp", to.String(), 2*time.Second)
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // only read
		answer, err = io.ReadAll(c)
		return err
	})
	return string(answer)
}

func TestPodsReachEachOther(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	to := listen(t, site, "server-0", "here is server-0")
	for _, from := range []string{"client-0", "server-1", "server-0", "node-0", "node-1"} {
		if got := ask(t, site, from, to); got != "here is server-0" {
			t.Errorf("from %s: %q", from, got)
		}
	}
}

func TestLimitsOfTheAddressPlan(t *testing.T) {
	t.Parallel()
	lab := labtest.Need(t)
	topology := labtest.Topology(1001)
	if _, err := lab.Provision(t.Context(), topology); !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "1001 pods on node node-1") {
		t.Errorf("1001 pods on a node: %v", err)
	}
	topology = labtest.Topology(1)
	topology.Services[0].Pods = []string{"nobody"}
	if _, err := lab.Provision(t.Context(), topology); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("a service of an unknown pod: %v", err)
	}
}

func TestMTU(t *testing.T) {
	t.Parallel()
	topology := labtest.Topology(1)
	topology.MTU = 1400
	site := labtest.Site(t, topology)
	for _, name := range []string{"client-0", "node-1"} {
		labtest.In(t, site, name, func() error {
			eth0, err := net.InterfaceByName("eth0")
			if err == nil && eth0.MTU != 1400 {
				err = fmt.Errorf("MTU is %d", eth0.MTU)
			}
			return err
		})
	}
}

func TestCloseTwice(t *testing.T) {
	t.Parallel()
	site := labtest.TwoNodes(t)
	for range 2 {
		if err := site.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := labtest.Pod(t, site, "client-0").Start(t.Context(), model.Process{Name: "late", Component: model.ComponentApp, Command: []string{"{self}", "cat"}}); err == nil {
		t.Error("a closed site has started a process")
	}
}
