package flow

import (
	"runtime"
	"sync"
)

// maxPlaces bounds how many ends block without telling the scheduler.
const maxPlaces = 64

// Places lets ends of streams block in the kernel without telling Go's
// scheduler, which would else give their place away and, at every wake-up, look
// for a new one: half as much CPU again. So each needs a place of its own
// beside one for everything else. Places are never given back, as others may
// have asked for the same.
type Places struct {
	mu    sync.Mutex
	taken int
}

// take returns whether there is one, and how to leave it.
func (p *Places) take() (ok bool, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken == maxPlaces {
		return false, func() {}
	}
	p.taken++
	if wanted := p.taken + 2; runtime.GOMAXPROCS(0) < wanted {
		runtime.GOMAXPROCS(wanted)
	}
	return true, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken--
	}
}
