package sys

import "maps"

// Unweighed is the group without its part in the division of CPU time, where
// the two can be had apart (version 1): a process in it is accounted, and the
// scheduler weighs it as itself, by its niceness, and not as one of the group's.
func (g *Cgroup) Unweighed() *Cgroup {
	if g == nil || g.in.Version != 1 {
		return g
	}
	dirs := maps.Clone(g.dirs)
	delete(dirs, "cpu")
	return &Cgroup{in: g.in, dirs: dirs, cpusets: g.cpusets, bound: g.bound}
}
