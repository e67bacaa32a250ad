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
		if err = a.tryDriver(d, l, s); err != nil {
			errs = append(errs, wrong(err))
			continue
		}
		if _, err = driver.Find(ctx, d.Tool(), l.Program); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// tryDriver asks a driver about a load in every variant.
func (a *app) tryDriver(d driver.Driver, l model.Load, s model.Study) error {
	pods := 1
	for _, svc := range s.Topology.Services {
		if svc.Name == l.To {
			pods = len(svc.Pods)
		}
	}
	for _, v := range s.Variants {
		layers, err := a.stack(v)
		if err != nil {
			return err
		}
		fronted := slices.ContainsFunc(layers, func(l model.Layer) bool {
			_, ok := l.(model.Fronter)
			return ok
		})
		addresses := pods
		if fronted {
			addresses = 1
		}
		if err := driver.Try(d, l, s.Design.Warmup, addresses, fronted); err != nil {
			return fmt.Errorf("variant %s: %w", v.Name, err)
		}
	}
	return nil
}
