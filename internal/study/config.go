package study

import (
	"encoding/json"

	"go.yaml.in/yaml/v3"
)

// The types of this file are the study format: the decoder reads a file into
// them, and the JSON Schema is made from them. Their tags mean
//
//	json                    the key; required unless it has omitempty or omitzero
//	default                 what is taken if the key is absent, as YAML
//	jsonschema              minimum, maximum, enum, minItems, maxItems: checked by both
//	jsonschema_description  what editors show, and what a missing key is told
//	why                     added where a value is out of range
//	wants                   what should stand here, where something else does

// Config is a study file.
type Config struct {
	APIVersion string                 `json:"apiVersion" jsonschema:"enum=windtunnel/v1" jsonschema_description:"Version of the study format."`
	Kind       string                 `json:"kind" jsonschema:"enum=Study" jsonschema_description:"Always Study."`
	Metadata   MetadataConfig         `json:"metadata" jsonschema_description:"What the study is called."`
	Question   string                 `json:"question" jsonschema:"minLength=1" jsonschema_description:"The question that the study answers, in one sentence."`
	Target     TargetConfig           `json:"target,omitzero" default:"lab" jsonschema_description:"Where trials run. lab: this host. kube: real clusters of the kubeconfig."`
	Topology   TopologyConfig         `json:"topology,omitzero" default:"{preset: two-nodes}" jsonschema_description:"Where pods are: a preset, or regions spelled out."`
	App        AppConfig              `json:"app" jsonschema_description:"What is under load."`
	Baseline   Name                   `json:"baseline" jsonschema_description:"The variant that the others are compared with."`
	Variants   Crossed[VariantConfig] `json:"variants" jsonschema:"minItems=1" jsonschema_description:"The systems under test."`
	Loads      Crossed[LoadConfig]    `json:"loads" jsonschema:"minItems=1" jsonschema_description:"Who sends what to where. Every variant meets every load."`
	Limits     LimitsConfig           `json:"limits,omitzero" jsonschema_description:"What components of each pod may use, by CPU and memory. Variants and loads can have limits of their own."`
	Faults     []FaultConfig          `json:"faults,omitempty" jsonschema_description:"Scenarios of harm, each a timeline, for loads that name them."`
	Design     DesignConfig           `json:"design,omitzero" default:"{}" jsonschema_description:"How trials are repeated, ordered, stopped and judged."`
	Gates      []string               `json:"gates,omitempty" wants:"a list of conditions" jsonschema_description:"Conditions on results: variant[.load].metric, one of < <= > >=, and a value, e.g. envoy.steady.response.p99 < 20ms."`
	Published  []PublishedConfig      `json:"published,omitempty" jsonschema:"maxItems=20" jsonschema_description:"What other sources say: tables and claims that the report sets beside the results."`
	Fleet      *FleetConfig           `json:"fleet,omitempty" jsonschema_description:"What the report turns the cost into: cores and memory of so many pods that get so many requests."`
}

// FleetConfig is a number of pods and their load.
type FleetConfig struct {
	Pods int  `json:"pods" jsonschema:"minimum=1,maximum=1000000" jsonschema_description:"Pods that each have what the variant puts into a pod."`
	RPS  Rate `json:"rps" jsonschema_description:"Requests that all of them together get each second, e.g. 50000."`
}

// MetadataConfig names a study.
type MetadataConfig struct {
	Name Name `json:"name" jsonschema_description:"A DNS label. It names the folders of the study's runs."`
}

// TopologyConfig says where pods are: by a preset or spelled out.
type TopologyConfig struct {
	Preset   string          `json:"preset,omitempty" jsonschema:"enum=two-nodes,enum=one-cluster,enum=two-clusters,enum=two-regions,enum=three-regions,enum=bookinfo" jsonschema_description:"A topology with a name. two-nodes: node-0 holds the pod client, node-1 the pods server-0 to server-(replicas-1). one-cluster: the servers are on two nodes. two-clusters: in one region. two-regions, three-regions: one cluster in each of places, linked as far apart as they are. bookinfo: one cluster with the four services of the app bookinfo."`
	Places   []string        `json:"places,omitempty" jsonschema_description:"The places of two-regions or three-regions, the client's first, e.g. [singapore, sydney]. The built-in table of round trips between regions of clouds says how far apart they are."`
	Cloud    string          `json:"cloud,omitempty" jsonschema_description:"Whose round trips count. If absent: those of the first cloud of the table that has all places."`
	Networks string          `json:"networks,omitempty" default:"flat" jsonschema:"enum=flat,enum=separate" jsonschema_description:"flat: pods of all clusters reach each other by their addresses. separate: each cluster is a network of its own, unless it names one; only nodes reach each other across."`
	Regions  []RegionConfig  `json:"regions,omitempty" jsonschema:"minItems=1" jsonschema_description:"Instead of a preset: every region with its clusters, nodes and pods."`
	Services []ServiceConfig `json:"services,omitempty" jsonschema:"minItems=1" jsonschema_description:"Names for sets of pods. If absent: one service server for all pods of role server."`
	Links    []LinkConfig    `json:"links,omitempty" jsonschema_description:"What the paths between two nodes, clusters or regions are like. What no link joins is connected as fast as the target can."`
	MTU      int             `json:"mtu,omitempty" jsonschema:"minimum=576,maximum=65535" jsonschema_description:"MTU of the underlay between nodes in bytes. If absent: the target's own."`
}

// RegionConfig is a place.
type RegionConfig struct {
	Name     Name            `json:"name" jsonschema_description:"Unique among regions."`
	Clusters []ClusterConfig `json:"clusters" jsonschema:"minItems=1" jsonschema_description:"The region's clusters."`
}

// ClusterConfig is one cluster of a region.
type ClusterConfig struct {
	Name  Name         `json:"name" jsonschema_description:"Unique among clusters."`
	Nodes []NodeConfig `json:"nodes" jsonschema:"minItems=1" jsonschema_description:"The cluster's nodes."`
	// Network is not filled in: networks decides what it is if absent.
	Network Name `json:"network,omitempty" jsonschema_description:"Clusters with one network are flat: their pods reach each other by their addresses. If absent: as networks says."`
}

// NodeConfig is one machine of a cluster.
type NodeConfig struct {
	Name Name        `json:"name" jsonschema_description:"Unique among nodes."`
	Pods []PodConfig `json:"pods" jsonschema_description:"The node's pods; may be empty."`
}

// PodConfig is one pod of a node.
type PodConfig struct {
	Name Name   `json:"name" jsonschema_description:"Unique among pods."`
	Role string `json:"role" jsonschema:"enum=client,enum=server" jsonschema_description:"client: sends load. server: runs the app."`
}

// ServiceConfig is a name for a set of pods.
type ServiceConfig struct {
	Name       Name     `json:"name" jsonschema_description:"What loads name in to."`
	Port       int      `json:"port,omitempty" default:"80" jsonschema:"minimum=1,maximum=65535" jsonschema_description:"Port of the service's address."`
	TargetPort int      `json:"target_port,omitempty" default:"8080" jsonschema:"minimum=1,maximum=65535" jsonschema_description:"Port of the pods."`
	Pods       []string `json:"pods" jsonschema:"minItems=1" jsonschema_description:"The pods behind the service."`
}

// LinkConfig says what the path between two places is like, in each direction.
type LinkConfig struct {
	A            string   `json:"a" jsonschema_description:"A node, a cluster or a region."`
	B            string   `json:"b" jsonschema_description:"Another one."`
	Delay        Duration `json:"delay,omitempty" jsonschema_description:"One way: half of the round trip. At most 10s."`
	Jitter       Duration `json:"jitter,omitempty" jsonschema_description:"The delay is evenly spread over delay - jitter to delay + jitter; at most the delay. Packets keep their order unless reorder is true."`
	Reorder      bool     `json:"reorder,omitempty" jsonschema_description:"Whether jitter may reorder packets."`
	Loss         Percent  `json:"loss,omitempty" jsonschema_description:"Share of packets that are lost."`
	Duplicate    Percent  `json:"duplicate,omitempty" jsonschema_description:"Share of packets that arrive twice."`
	ReorderShare Percent  `json:"reorder_share,omitempty" jsonschema_description:"Share of packets that are not delayed, and so overtake those before them."`
	Rate         BitRate  `json:"rate,omitempty" jsonschema_description:"Speed in bits per second. What would wait for more than 100 ms is dropped."`
	MTU          int      `json:"mtu,omitempty" jsonschema:"minimum=576,maximum=65535" jsonschema_description:"MTU of the path in bytes, at most that of the underlay. If absent: that of the underlay."`
}

// AppConfig is what is under load. Further keys belong to the app.
type AppConfig struct {
	Kind     string `json:"kind" jsonschema_description:"Which app."`
	Replicas int    `json:"replicas,omitempty" default:"2" jsonschema:"minimum=1,maximum=100" jsonschema_description:"Number of server pods that a topology preset makes. bookinfo: of each service, and of each version of reviews; there 1 if absent."`

	config json.RawMessage
}

// VariantConfig is one system under test.
type VariantConfig struct {
	Name  Name          `json:"name" jsonschema_description:"Unique; control is reserved for the A/A control."`
	Stack []LayerConfig `json:"stack" jsonschema_description:"The layers, bottom up. []: pods talk to pods directly."`
	// Matrix and Except are gone when the entry is decoded: it has been expanded.
	Matrix MatrixConfig   `json:"matrix,omitzero" jsonschema_description:"Factors and their levels: the entry is expanded into a variant of each combination, with the levels in place of <FACTOR>. Levels are a list, or a mapping of names to values."`
	Except []ExceptConfig `json:"except,omitempty" jsonschema_description:"Combinations of the matrix that are left out."`
	Limits LimitsConfig   `json:"limits,omitzero" jsonschema_description:"What components of each pod may use in this variant; what is absent is as the study says."`
	// Targets are those on which the variant runs.
	Targets []string `json:"targets,omitempty" jsonschema:"minItems=1" jsonschema_description:"Targets on which the variant runs; on others it is left out, and the report says so. If absent: all."`
}

// LayerConfig is one layer of a stack: its name, or its name with the layer's
// own configuration.
type LayerConfig struct {
	name   string
	config json.RawMessage
}

// LoadConfig says who sends what to where. Further keys belong to the protocol.
type LoadConfig struct {
	Name        Name           `json:"name" jsonschema_description:"Unique among loads."`
	Protocol    string         `json:"protocol" jsonschema_description:"What is spoken."`
	Model       string         `json:"model" jsonschema:"enum=open,enum=closed" jsonschema_description:"open: requests are sent by the clock, at rate, whatever the system does. closed: each connection sends when its answer has come in; such a load cannot see queueing."`
	Rate        RateConfig     `json:"rate,omitzero" jsonschema_description:"Requests per second over all connections, e.g. 2000/s; or one that changes, is replayed, depends on another load's result or is searched for. Open loop only."`
	Arrivals    string         `json:"arrivals,omitempty" default:"constant" jsonschema:"enum=constant,enum=poisson" jsonschema_description:"constant: requests are evenly spaced. poisson: at random times with the same mean, as many independent users would send; in a closed loop think times are then exponential."`
	Burst       int            `json:"burst,omitempty" default:"1" jsonschema:"minimum=1,maximum=10000" jsonschema_description:"How many requests are due together, at the same mean rate. Open loop only."`
	Think       Duration       `json:"think,omitempty" jsonschema_description:"How long each connection rests between an answer and its next request. Closed loop only."`
	Pace        Rate           `json:"pace,omitempty" jsonschema_description:"The most requests per second over all connections. Closed loop only."`
	Connections int            `json:"connections,omitempty" default:"32" jsonschema:"minimum=1,maximum=65536" jsonschema_description:"Number of connections, over all pods that send."`
	Duration    Duration       `json:"duration,omitempty" default:"10s" jsonschema_description:"Length of the measured window."`
	Timeout     Duration       `json:"timeout,omitempty" default:"5s" jsonschema_description:"How long one request may take from when it was sent."`
	WhenBlocked string         `json:"when_blocked,omitempty" default:"wait" jsonschema:"enum=wait,enum=drop" jsonschema_description:"What becomes of a request that is due when no connection is free. wait: it waits, and its response time counts on. drop: it is given up at once and counted as unsent. Open loop only."`
	Coalesce    Duration       `json:"coalesce,omitempty" jsonschema_description:"Requests that are due within so long may be sent together: less CPU of the generator, but they come in less evenly."`
	Spin        Duration       `json:"spin,omitempty" jsonschema_description:"How long before a request is due the generator watches the clock instead of sleeping: less lateness, for a core of its own."`
	TLS         *TLSConfig     `json:"tls,omitempty" jsonschema_description:"Connections are secured by TLS. If absent: in the clear."`
	Driver      string         `json:"driver,omitempty" jsonschema_description:"The outside tool that sends. If absent: our own engine."`
	Program     string         `json:"program,omitempty" jsonschema_description:"Path of the outside tool. If absent: it is looked for."`
	From        Pods           `json:"from,omitempty" default:"client" jsonschema_description:"The pod that sends, or a list of pods that share the load."`
	To          string         `json:"to,omitempty" default:"server" jsonschema_description:"The service that answers. If the topology has no service server: its first."`
	Matrix      MatrixConfig   `json:"matrix,omitzero" jsonschema_description:"Factors and their levels: the entry is expanded into a load of each combination, with the levels in place of <FACTOR>. Levels are a list, or a mapping of names to values."`
	Except      []ExceptConfig `json:"except,omitempty" jsonschema_description:"Combinations of the matrix that are left out."`
	Limits      LimitsConfig   `json:"limits,omitzero" jsonschema_description:"What components of each pod may use under this load; what is absent is as the variant says."`
	Fault       string         `json:"fault,omitempty" jsonschema_description:"The scenario of faults under which the load runs. If absent: none."`
	Breakdown   Duration       `json:"breakdown,omitempty" jsonschema_description:"The window of one more trial of each variant, after all blocks and outside of all results, in which requests are traced to find where the time goes. If absent: none."`

	rest *yaml.Node // the protocol's keys
}

// TLSConfig says how connections are secured.
type TLSConfig struct {
	ServerName string `json:"server_name,omitempty" jsonschema_description:"Name that is asked for and must be in the server's certificate. If absent: the service's."`
	CA         Text   `json:"ca,omitempty" jsonschema_description:"What certificates are verified with, in PEM. If absent: the system's."`
	Insecure   bool   `json:"insecure,omitempty" jsonschema_description:"Whether any certificate is accepted."`
}

// DesignConfig says how trials are repeated, ordered, stopped and judged.
type DesignConfig struct {
	Blocks      int         `json:"blocks,omitempty" default:"10" jsonschema:"minimum=6,maximum=1000" why:"Wilcoxon's signed ranks give no 95 % interval from fewer than 6 blocks" jsonschema_description:"How often every variant meets every load, in random order. At least 6: fewer give no 95 % interval."`
	Warmup      Duration    `json:"warmup,omitempty" default:"2s" jsonschema_description:"How long each load runs before its measured window opens."`
	Control     bool        `json:"control,omitempty" default:"true" jsonschema_description:"Whether the baseline runs twice in each block. What differs between the two is noise."`
	Stop        *StopConfig `json:"stop,omitempty" jsonschema_description:"Go on after blocks until intervals are narrow enough. If absent: exactly blocks are run."`
	Equivalence Percent     `json:"equivalence,omitempty" jsonschema_description:"Margin inside which two variants may be called equivalent. If absent: no such claim is made."`
	Seed        uint64      `json:"seed,omitempty" default:"1" jsonschema:"minimum=0" jsonschema_description:"Of every random choice, the order of trials above all."`
	Primary     []string    `json:"primary,omitempty" default:"[response.p50, response.p99, cpu.total, success, goodput, loss, cpu.gbit.total, rate.highest]" jsonschema:"minItems=1" jsonschema_description:"Metrics that are corrected for as one family, those that a load does not have left out; all others are exploratory."`
}

// StopConfig is a stop rule. It is frozen in the plan before the first trial.
type StopConfig struct {
	Interval  Percent `json:"interval" jsonschema_description:"Stop when the half-width of every primary interval is under this share of its estimate."`
	MaxBlocks int     `json:"max_blocks,omitempty" jsonschema:"minimum=6,maximum=1000" jsonschema_description:"Stop here in any case; if absent, 3 times blocks, at most 1000."`
}
