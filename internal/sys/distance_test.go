package sys

import (
	"testing"
	"time"
)

// A line that the CPU itself has written is the nearest that there is, and no
// memory of one machine is a microsecond away. CPUs that are not there are at no
// distance.
func TestCacheDistance(t *testing.T) {
	t.Parallel()
	cpus, err := Affinity()
	if err != nil {
		t.Fatal(err)
	}
	own := CacheDistance(cpus[0], cpus[0])
	if own <= 0 || own > time.Microsecond {
		t.Errorf("a CPU is %s from itself", own)
	}
	if far := CacheDistance(cpus[0], cpus[len(cpus)-1]); far <= 0 || far > 10*time.Microsecond {
		t.Errorf("CPU %d is %s from CPU %d", cpus[0], far, cpus[len(cpus)-1])
	}
	if none := CacheDistance(cpus[0], 1023); none != 0 {
		t.Errorf("a CPU that is not there is at %s", none)
	}
	now, err := Affinity()
	if err != nil || len(now) != len(cpus) {
		t.Errorf("afterwards this process may run on %v, not on %v: %v", now, cpus, err)
	}
}

func BenchmarkCacheDistance(b *testing.B) {
	cpus, err := Affinity()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		CacheDistance(cpus[0], cpus[len(cpus)-1])
	}
}
