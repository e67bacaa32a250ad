package sys

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ethtool's commands to read and to set what a device does for the kernel.
const (
	getTXChecksum, setTXChecksum = 0x16, 0x17
	getTSO, setTSO               = 0x1e, 0x1f
	getGSO, setGSO               = 0x23, 0x24
	getGRO, setGRO               = 0x2b, 0x2c
)

// Offloads say what a device leaves undone until later, or does several
// packets at a time. A program that reads whole packets from the device sees
// packets without checksums, and larger than any wire's, where they are on.
type Offloads struct{ TXChecksum, TSO, GSO, GRO bool }

// Offloads reads those of a device in the calling thread's namespace.
func (*Net) Offloads(device string) (o Offloads, err error) {
	for command, on := range map[uint32]*bool{getTXChecksum: &o.TXChecksum, getTSO: &o.TSO, getGSO: &o.GSO, getGRO: &o.GRO} {
		value, failure := ethtool(device, command, 0)
		*on = value != 0
		err = errors.Join(err, failure)
	}
	return o, err
}

// SetOffloads sets those of a device in the calling thread's namespace.
// Segmentation needs checksums: these go first when turned on, last when off.
func (*Net) SetOffloads(device string, o Offloads) error {
	type setting struct {
		command uint32
		on      bool
	}
	order := []setting{{setTXChecksum, o.TXChecksum}, {setTSO, o.TSO}, {setGSO, o.GSO}, {setGRO, o.GRO}}
	if !o.TXChecksum {
		order = append(order[1:], order[0])
	}
	var errs []error
	for _, s := range order {
		var value uint32
		if s.on {
			value = 1
		}
		_, err := ethtool(device, s.command, value)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ethtool is one ioctl; the kernel has no newer way to set these in one call
// that all kernels in use know.
func ethtool(device string, command, value uint32) (uint32, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("opening a socket: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written to it
	request := struct{ command, value uint32 }{command, value}
	var ifreq struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(ifreq.name[:unix.IFNAMSIZ-1], device)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&request)
	ifreq.data = unsafe.Pointer(&request)                                                                       //nolint:gosec // what the ioctl takes
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq))) //nolint:gosec // what the ioctl takes
	if errno != 0 {
		return 0, fmt.Errorf("offloads of %s, command %#x: %w", device, command, errno)
	}
	return request.value, nil
}

// Quieten ends that a device takes in what is not for it, which a program that
// was killed could not.
func (n *Net) Quieten(device string) error {
	l, err := n.link(device)
	if err != nil {
		return err
	}
	if err := n.h.SetPromiscOff(l); err != nil {
		return fmt.Errorf("ending the promiscuous mode of %s: %w", device, err)
	}
	return nil
}

// Addrs are a device's IPv4 addresses.
func (n *Net) Addrs(device string) ([]netip.Prefix, error) {
	l, err := n.link(device)
	if err != nil {
		return nil, err
	}
	found, err := dump(func() ([]netlink.Addr, error) { return n.h.AddrList(l, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses of %s: %w", device, err)
	}
	var all []netip.Prefix
	for _, a := range found {
		ip, _ := netip.AddrFromSlice(a.IP)
		bits, _ := a.Mask.Size()
		all = append(all, netip.PrefixFrom(ip.Unmap(), bits))
	}
	return all, nil
}
