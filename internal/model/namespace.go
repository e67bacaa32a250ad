package model

// NamespaceFile is a Namespace that other programs can enter, too: by a file
// that is there for as long as the site, and means nothing outside this host.
type NamespaceFile interface {
	Namespace
	NetworkPath() string
}
