package cli

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
)

// fileReader reads the files that a study names: a built-in study's are part of
// the program, those of others are in the study's folder or below it.
func (a *app) fileReader(source, folder string) func(name string) ([]byte, error) {
	builtin := slices.ContainsFunc(a.catalog.Studies, func(s Study) bool { return s.Name == source })
	if builtin && a.catalog.StudyFiles != nil {
		return func(name string) ([]byte, error) {
			return fs.ReadFile(a.catalog.StudyFiles, path.Clean(filepath.ToSlash(name)))
		}
	}
	return func(name string) ([]byte, error) { return readFile(filepath.Join(folder, name)) }
}
