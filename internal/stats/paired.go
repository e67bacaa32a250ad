package stats

import "math"

// Comparison is a variant against the baseline, paired by block.
type Comparison struct {
	Difference Estimate // variant - baseline
	// Ratio is variant / baseline, estimated on the log scale. Its N is 0 where
	// there is none, and NoRatio says why: usually a *NotPositiveError.
	Ratio   Estimate
	NoRatio error
	// P is Wilcoxon's two-sided p-value of the differences. Correct it by Holm
	// for a family before it is judged.
	P float64
	// Detectable is the smallest true difference that so many blocks show with
	// 80 % probability, from the differences' own scatter.
	Detectable float64
}

// Paired compares values that stand at the same index because they come from
// the same block: by Hodges-Lehmann and Wilcoxon's signed ranks, which need six
// blocks (else a *TooFewError).
func Paired(baseline, variant []float64) (Comparison, error) {
	d, p, err := PairedDifference(baseline, variant)
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{Difference: d, P: p, Detectable: detectable(baseline, variant)}
	c.Ratio, _, c.NoRatio = PairedRatio(baseline, variant)
	return c, nil
}

// PairedDifference estimates variant - baseline; p is that of SignedRankP.
func PairedDifference(baseline, variant []float64) (e Estimate, p float64, err error) {
	d, err := differences(baseline, variant)
	if err != nil {
		return Estimate{}, 1, err
	}
	e, err = SignedRank(d, Level)
	return e, SignedRankP(d), err
}

// PairedRatio estimates variant / baseline from the logarithms of the ratios;
// p is that of their SignedRankP. A value that is not positive has no ratio: the
// error is a *NotPositiveError.
func PairedRatio(baseline, variant []float64) (e Estimate, p float64, err error) {
	logs, err := logRatios(baseline, variant)
	if err != nil {
		return Estimate{}, 1, err
	}
	e, err = SignedRank(logs, Level)
	if err != nil {
		return Estimate{}, 1, err
	}
	return e.exp(e.Method + " of log ratios"), SignedRankP(logs), nil
}

// PairedBootstrap is Paired with BCa bootstrap intervals of the mean difference
// and of the geometric mean ratio, for studies that ask for it and have
// MinBootstrap blocks; under that it is Paired, as Method says. P stays
// Wilcoxon's.
func PairedBootstrap(baseline, variant []float64, seed uint64) (Comparison, error) {
	c, err := Paired(baseline, variant)
	if err != nil || len(baseline) < MinBootstrap {
		return c, err
	}
	d, err := differences(baseline, variant)
	if err != nil {
		return Comparison{}, err
	}
	if c.Difference, err = BCa(d, Mean, seed); err != nil {
		return Comparison{}, err
	}
	c.Difference.Method = "mean, " + c.Difference.Method
	if c.NoRatio == nil {
		c.Ratio, err = ratioBootstrap(baseline, variant, seed)
	}
	return c, err
}

func ratioBootstrap(baseline, variant []float64, seed uint64) (Estimate, error) {
	logs, err := logRatios(baseline, variant)
	if err != nil {
		return Estimate{}, err
	}
	r, err := BCa(logs, Mean, seed)
	return r.exp("geometric mean, " + r.Method + " of log ratios"), err
}

func differences(baseline, variant []float64) ([]float64, error) {
	if len(baseline) != len(variant) {
		return nil, ErrUnpaired
	}
	d := make([]float64, len(baseline))
	for i := range d {
		d[i] = variant[i] - baseline[i]
	}
	return d, finite(d)
}

func logRatios(baseline, variant []float64) ([]float64, error) {
	if len(baseline) != len(variant) {
		return nil, ErrUnpaired
	}
	logs := make([]float64, len(baseline))
	for i, b := range baseline {
		if b <= 0 || variant[i] <= 0 {
			return nil, &NotPositiveError{Block: i, Baseline: b, Variant: variant[i]}
		}
		logs[i] = math.Log(variant[i]) - math.Log(b) // the quotient could overflow
	}
	return logs, finite(logs)
}

func detectable(baseline, variant []float64) float64 {
	d, err := differences(baseline, variant)
	if err != nil {
		return math.Inf(1)
	}
	return MinimumDetectable(StdDev(d), len(d))
}
