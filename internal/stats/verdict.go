package stats

import "math"

// Verdict is what a comparison shows.
type Verdict string

// The verdicts. That no difference was shown does not say that there is none:
// Comparison.Detectable says how large it would have had to be.
const (
	VerdictDifferent  Verdict = "different"
	VerdictNone       Verdict = "~"
	VerdictEquivalent Verdict = "equivalent"
)

// Floor is the noise floor that an A/A control shows in its difference: the
// wider end of its interval, as an absolute difference.
func Floor(control Estimate) float64 {
	return max(math.Abs(control.Lo), math.Abs(control.Hi))
}

// Shown says whether a difference is one: its interval does not hold zero and
// the estimate lies outside the noise floor.
func Shown(difference Estimate, floor float64) bool {
	return (difference.Lo > 0 || difference.Hi < 0) && math.Abs(difference.Value) > floor
}

// Judge gives the verdict of a comparison, with the floor of the same metric and
// whether Equivalent held. A difference must be Shown and have a p (corrected by
// Holm, for a primary metric) of at most 5 %. A difference that is shown is
// reported as such even inside the margin of equivalence.
func Judge(c Comparison, floor float64, equivalent bool) Verdict {
	switch {
	case Shown(c.Difference, floor) && c.P <= 1-Level:
		return VerdictDifferent
	case equivalent:
		return VerdictEquivalent
	}
	return VerdictNone
}

// Equivalence is the outcome of two one-sided tests.
type Equivalence struct {
	Ratio      Estimate // variant / baseline, with its 90 % interval
	Margin     float64
	Equivalent bool
}

// TOST tests for equivalence by two one-sided signed-rank tests at 5 % each
// (Schuirmann 1987): they hold exactly when the 90 % interval of the ratio lies
// inside (1/(1+margin), 1+margin). A margin of 0.05 is 5 % either way, the same
// for both arms. It needs five blocks and positive values.
func TOST(baseline, variant []float64, margin float64) (Equivalence, error) {
	logs, err := logRatios(baseline, variant)
	if err != nil {
		return Equivalence{}, err
	}
	r, err := SignedRank(logs, 1-2*(1-Level))
	if err != nil {
		return Equivalence{}, err
	}
	limit := math.Log1p(margin)
	return Equivalence{
		Ratio:  r.exp("two one-sided tests, " + r.Method + " of log ratios"),
		Margin: margin, Equivalent: r.Lo > -limit && r.Hi < limit,
	}, nil
}

// Equivalent says whether TOST shows equivalence; false where it cannot be run.
func Equivalent(baseline, variant []float64, margin float64) bool {
	e, err := TOST(baseline, variant, margin)
	return err == nil && e.Equivalent
}
