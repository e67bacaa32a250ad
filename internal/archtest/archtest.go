// Package archtest holds the rules of the codebase as tests: what may import
// what, which packages are pure, that the catalog is complete, how large a file
// and a function may be.
package archtest
