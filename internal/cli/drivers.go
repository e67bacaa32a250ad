package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/driver"
	"github.com/windtunnel/windtunnel/internal/model"
)

func (a *app) driverNames() []string {
	var all []string
	for _, p := range a.catalog.Drivers {
		all = append(all, p.Name)
	}
	return all
}

// driver makes the driver of that name.
func (a *app) driver(name string) (driver.Driver, error) {
	i := slices.Index(a.driverNames(), name)
	if i < 0 {
		return nil, wrong(fmt.Errorf("no driver %q; known: %s", name, names(a.driverNames(), func(s string) string { return s })))
	}
	return a.catalog.Drivers[i].New(nil)
}

// checkDrivers asks, before anything is made, whether the tools of a study are
// here, and whether they can send its loads.
func (a *app) checkDrivers(ctx context.Context, s model.Study) error {
	var errs []error
	for _, l := range s.Loads {
		if l.Driver == "" {
			continue
		}
		d, err := a.driver(l.Driver)
		if err != nil {
			return err
		}
		if _, err = d.Plan(driver.Example(l, s.Design.Warmup)); err != nil {
			errs = append(errs, wrong(err))
			continue
		}
		if _, err = driver.Find(ctx, d.Tool(), l.Program); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
