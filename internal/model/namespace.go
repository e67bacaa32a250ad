package model

// NamespaceFile is a Namespace that other programs can enter, too: by a file
// that is there for as long as the site, and means nothing outside this host.
type NamespaceFile interface {
	Namespace
	NetworkPath() string
}

// FactWirePorts is the key of the fact that says to which TCP ports connections
// were opened on the underlay.
const FactWirePorts = "TCP ports on the wire"
