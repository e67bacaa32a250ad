package model

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// TargetKube is the target of real clusters, TargetLab that of this host.
const (
	TargetLab  = "lab"
	TargetKube = "kube"
)

// Kube says which clusters a study runs on, and how. It names nothing that
// would give anybody access: that is the kubeconfig's.
type Kube struct {
	// Contexts of the kubeconfig, one for each cluster of the topology in order;
	// or one for all of them, which are then zones of it. None: the current one.
	Contexts []string `json:"contexts,omitempty"`
	// Namespace that exists, to work in; empty: one is made for the run.
	Namespace string `json:"namespace,omitempty"`
	// Image of the pods; empty: the one that `make image` makes.
	Image string `json:"image,omitempty"`
	// Nodes are real nodes by node of the topology. The others are the
	// scheduler's choice, which is kept for the whole run.
	Nodes map[string]string `json:"nodes,omitempty"`
}

// Skipped is a variant of a study that cannot run on the target that was asked
// for, and is left out.
type Skipped struct {
	Variant string `json:"variant"`
	Reason  string `json:"reason"`
}

// ErrTarget is the cause of everything that a target could not make or keep, and
// that says nothing of the system under test. Find it with errors.Is.
var ErrTarget = errors.New("the target failed")

// TargetError says what a target could not make or keep. A trial that meets it
// is not kept: it is run again, now if Lost, else when the run is resumed.
type TargetError struct {
	What string // what was being done, to what
	Why  string // with the cluster's own words
	Hint string // what the user can do
	// Lost says that something was there and went away: another try may do.
	Lost bool
}

// Error says all of it in one line.
func (e *TargetError) Error() string {
	if e.Hint == "" {
		return fmt.Sprintf("%s: %s", e.What, e.Why)
	}
	return fmt.Sprintf("%s: %s (%s)", e.What, e.Why, e.Hint)
}

// Is makes errors.Is(err, ErrTarget) true.
func (e *TargetError) Is(target error) bool { return target == ErrTarget }

// Portable is a layer or an app that works on other targets than the lab, or
// on some. CheckTarget returns an UnsupportedError for those on which it does
// not. What is not Portable works on the lab only.
type Portable interface {
	CheckTarget(target string) error
}

// ServiceSite is a site that makes its services real by itself, as Kubernetes
// does. There a layer is data that the site applies; layers know no client.
type ServiceSite interface {
	// Expose gives every service of the topology a virtual address in every
	// cluster that has pods of role client; Site.Service tells it from then on.
	Expose(ctx context.Context) (remove func(context.Context) error, err error)
	// Exposed says what does the balancing, and over which endpoints, as read
	// back from the live configuration, under the layer's name.
	Exposed(ctx context.Context, layer string) (Ledger, error)
}

// FactSite is a site that has something to tell of itself for the ledger.
type FactSite interface {
	Facts() Ledger
}

// LosableSite is a site that can be lost while it is used. Lost says why, or
// nil if it is still there.
type LosableSite interface {
	Lost(ctx context.Context) error
}

// ClockedSite is a site whose pods may have other clocks than this process.
type ClockedSite interface {
	// Clock is by how much CLOCK_MONOTONIC of a pod is ahead of this process's,
	// and how far off that can be.
	Clock(pod string) (offset, uncertain time.Duration, err error)
	// SetReference makes a pod's clock the one of the samplers' readings.
	SetReference(pod string)
}

// PatientTarget is a target whose sites take longer to make or to remove than
// the lab's.
type PatientTarget interface {
	Patience() (provision, remove time.Duration)
}

// LateSampler is a sampler whose readings come some time after they were taken.
// Settle returns when there is one from after the moment, on the samplers'
// clock, or when the context ends.
type LateSampler interface {
	Settle(ctx context.Context, after int64, dst []Reading) ([]Reading, error)
}
