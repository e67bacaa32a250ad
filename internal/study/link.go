package study

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// maxDelay bounds a link's delay: more catches slips of the keyboard, and is
// longer than any timeout that studies have.
const maxDelay = Duration(10 * time.Second)

// networks gives every cluster that names no network the one that it has.
func (b *builder) networks(c TopologyConfig, t model.Topology) {
	if c.Networks != "separate" {
		return
	}
	for i := range t.Regions {
		for j := range t.Regions[i].Clusters {
			if cluster := &t.Regions[i].Clusters[j]; cluster.Network == "" {
				cluster.Network = cluster.Name
			}
		}
	}
}

// places are the names that links may join, with what they are names of.
func places(t model.Topology) map[string][]string {
	kinds := map[string][]string{}
	for _, r := range t.Regions {
		kinds[r.Name] = append(kinds[r.Name], "region")
		for _, c := range r.Clusters {
			kinds[c.Name] = append(kinds[c.Name], "cluster")
			for _, n := range c.Nodes {
				kinds[n.Name] = append(kinds[n.Name], "node")
			}
		}
	}
	return kinds
}

func (b *builder) links(c TopologyConfig, t model.Topology) []model.Link {
	kinds := places(t)
	if len(kinds) == 0 {
		return nil
	}
	known := slices.Sorted(maps.Keys(kinds))
	var links []model.Link
	first := map[[2]string]int{}
	for i, l := range c.Links {
		path := at("topology.links", i)
		pair := [2]string{min(l.A, l.B), max(l.A, l.B)}
		for _, end := range []struct{ key, name string }{{".a", l.A}, {".b", l.B}} {
			if b.oneOf(path+end.key, "node, cluster or region", end.name, known) && len(kinds[end.name]) > 1 {
				b.reject(path+end.key, fmt.Sprintf("%q is the name of a %s: give one of them another", end.name, strings.Join(kinds[end.name], " and of a ")))
			}
		}
		if l.A == l.B {
			b.reject(path+".b", fmt.Sprintf("%q is both ends of the link", l.B))
		}
		if j, twice := first[pair]; twice {
			b.reject(path, fmt.Sprintf("joins the same places as links[%d]; a link is the same in both directions", j))
		}
		first[pair] = i
		b.link(l, path, c.MTU)
		links = append(links, model.Link{
			A: l.A, B: l.B, Delay: time.Duration(l.Delay), Jitter: time.Duration(l.Jitter), Reorder: l.Reorder, Loss: float64(l.Loss),
			Duplicate: float64(l.Duplicate), ReorderShare: float64(l.ReorderShare), Rate: uint64(l.Rate), MTU: l.MTU,
		})
	}
	return links
}

// link checks what one key of a link says about another.
func (b *builder) link(l LinkConfig, path string, underlay int) {
	const usual = 1500
	if underlay == 0 {
		underlay = usual
	}
	switch {
	case l.Delay > maxDelay:
		b.reject(path+".delay", fmt.Sprintf("is more than %s", time.Duration(maxDelay)))
	case l.Jitter > l.Delay:
		b.reject(path+".jitter", "is more than the delay")
	case l.Reorder && l.Jitter == 0:
		b.reject(path+".reorder", "needs jitter: without it nothing is reordered; reorder_share reorders a share of packets")
	case l.ReorderShare > 0 && l.Delay == 0:
		b.reject(path+".reorder_share", "needs a delay: packets overtake by not being delayed")
	case l.Loss == 1:
		b.reject(path+".loss", "is 100%: nothing would arrive")
	case l.MTU > underlay:
		b.reject(path+".mtu", fmt.Sprintf("is more than the underlay's, %d: raise topology.mtu", underlay))
	}
}
