package sys

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
	"unsafe"
)

const (
	// distanceLines is how many cache lines are handed over: 128 KiB, which fits
	// in every level-2 cache of note, and takes 10 to 200 us to read.
	distanceLines = 1024
	// distanceTries is how often; the quickest counts, as an interrupt or a
	// hypervisor can only add to one.
	distanceTries = 5
)

// cacheLine is one of a chain. Lines of 128 bytes exist, and others are fetched
// in pairs.
type cacheLine struct {
	next *cacheLine
	_    [128 - unsafe.Sizeof(uintptr(0))]byte
}

// CacheDistance is how long a CPU takes to read a cache line that another has
// just written, and so how far apart the two are: about 5 ns where they share a
// core, 20 where they share a cache, 100 and more where all has to go through
// the memory's controllers or to another socket. Of real CPUs that does not
// change; virtual ones are moved about by their hypervisor. It takes about a
// millisecond, and is nothing if the process may not run on both.
func CacheDistance(writer, reader int) time.Duration {
	var least time.Duration
	err := onThrowawayThread(func() (err error) {
		least, err = cacheDistance(writer, reader)
		return err
	})
	if err != nil {
		return 0 // not allowed on one of them: not known
	}
	return least
}

// CPUDistance is the median of a CPU's CacheDistance from others, or from the
// first few of them; 0: there are none, or it is not known.
func CPUDistance(reader int, others []int) time.Duration {
	const most = 8
	var all []time.Duration
	for _, other := range others[:min(len(others), most)] {
		all = append(all, CacheDistance(other, reader))
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// cacheDistance moves its thread from one CPU to the other: no second thread
// has to be there at the same time.
func cacheDistance(writer, reader int) (time.Duration, error) {
	const seed = 1
	lines := make([]cacheLine, distanceLines)
	// In an order that no prefetcher guesses.
	order := rand.New(rand.NewPCG(seed, seed)).Perm(distanceLines) //nolint:gosec // G404: any order will do
	least := time.Duration(0)
	for range distanceTries {
		if err := setAffinity([]int{writer}); err != nil {
			return 0, err
		}
		for i, at := range order {
			lines[at].next = &lines[order[(i+1)%distanceLines]]
		}
		if err := setAffinity([]int{reader}); err != nil {
			return 0, err
		}
		line := &lines[0]
		began := time.Now()
		for range distanceLines {
			line = line.next // each has to be there before the next can be asked for
		}
		took := time.Since(began) / distanceLines
		runtime.KeepAlive(line)
		if least == 0 || took < least {
			least = took
		}
	}
	return least, nil
}
