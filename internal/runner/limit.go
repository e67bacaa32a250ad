package runner

import "github.com/windtunnel/windtunnel/internal/model"

// limit bounds what components may use, once the path is ready: starting up is
// not what is limited, or a study of small limits would mostly wait.
func (t *trial) limit() error {
	limits := t.Plan.Study.LimitsOf(t.Variant, t.Load)
	if len(limits) == 0 {
		return nil
	}
	site, ok := t.site.(model.LimitedSite)
	if !ok {
		return &model.UnsupportedError{
			What: "a limit of " + limits.String(), Missing: "this target has none by component",
			Hint: "run the study on the target lab, or limit the containers by the cluster's own means",
		}
	}
	facts, err := site.Limit(limits)
	t.out.Ledger = append(t.out.Ledger, facts...)
	return err
}
