// Package parallel does the same to several things at once, and loses no error.
package parallel

import (
	"errors"
	"sync"
)

// Each does something with all of them at once, and returns when that is done
// with the last, with all errors in their order.
func Each[T any](all []T, do func(T) error) error {
	return Count(len(all), len(all), func(i int) error { return do(all[i]) })
}

// Count does something for each of the numbers from 0 to n-1, at most so many at
// once. One that fails keeps none of the others from being done.
func Count(n, atOnce int, do func(i int) error) error {
	errs := make([]error, n)
	places := make(chan struct{}, max(atOnce, 1))
	var wg sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			errs[i] = do(i)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
