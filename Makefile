# Vernier's entry points, for people and for CI alike. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# Prometheus, NATS and collectors of IPFIX are unpacked beside the sources, not installed: their packages would start services.
TOOLS := $(CURDIR)/.tools
export PATH := $(TOOLS)/usr/bin:$(TOOLS)/usr/sbin:$(HOME)/.cargo/bin:$(PATH)

# Programs in target/debug. In CI with the tests, which give dependencies other features: all is built once.
BUILD_DEBUG = $(CARGO) build --locked --workspace --bins --lib $(if $(CI),--tests)

# How long `make fuzz` stays with each target.
SECONDS_PER_TARGET ?= 60
# How many targets `make fuzz` runs at a time.
FUZZ_JOBS ?= $(shell nproc)

# What a Debian machine needs to build and run, and further to test.
RUN_PACKAGES := libdpdk-dev dpdk libpcap-dev pkg-config gcc libc6-dev
TEST_PACKAGES := $(RUN_PACKAGES) g++ dpdk-dev iproute2 iputils-ping iperf3 nftables ethtool tcpdump valgrind faketime systemd chromium-headless-shell \
  tshark

# Peers of the tests. They are unpacked beside the sources, since these packages would start services; their libraries are installed.
PEER_PACKAGES := frr nfdump pmacct openvswitch-switch openvswitch-switch-dpdk

# Routers with OSPF, for tests.
FRR_OSPFD := usr/lib/frr/ospfd

# Further packages of `make bench`, for STEPS=1.
BENCH_PACKAGES := linux-perf binutils

OVS_PACKAGES := openvswitch-common openvswitch-switch openvswitch-switch-dpdk
OVS_DPDK := usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk
OVS_ROOT = $(if $(wildcard /$(OVS_DPDK)),/,$(TOOLS))

# Further packages of `make wire`, among them a tool for hand-made attacks.
WIRE_PACKAGES := python3-scapy util-linux procps

# Further packages of `make nic`. The guest's kernel is unpacked beside the sources, not installed.
NIC_PACKAGES := qemu-system-x86 busybox-static cpio iproute2
NIC_KERNEL := linux-image-amd64
NIC_FILES := boot/vmlinuz-* 9p/* netfs/* fscache/* vfio/* virtio/* virtio_console.ko irqbypass.ko

.PHONY: help
help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: run
run: setup-run ## Build and run the switch with a live table; PCAP=file, CONFIG=file, DURATION=seconds
	@$(CARGO) build --release --locked -p daemon -p console
	@target/release/vernierd --live \
	  $(if $(CONFIG),--config '$(CONFIG)') $(if $(PCAP),--pcap '$(PCAP)') \
	  $(if $(DURATION),--duration '$(DURATION)')

# The station's port, and those of the switches and of NATS: this one and the next three.
STATION_PORT ?= 9465

.PHONY: station
station: setup-station ## NATS, two switches with a wire between them, a station: the path from one to the other; DURATION=seconds
	@$(CARGO) build --release --locked -p daemon -p console@0.1.0 -p station
	@STATION_PORT='$(STATION_PORT)' examples/station.sh $(DURATION)

# Tests that run at a time: most wait for other programs, so that two for each CPU keep it busy.
TEST_THREADS ?= $(shell expr 2 '*' $$(nproc))

.PHONY: test
test: setup-test ## Install what is missing and run the whole test suite
	$(CARGO) nextest run --workspace --locked --test-threads $(TEST_THREADS) $(NEXTEST_ARGS)

# How long `make soak` goes on.
SOAK_SECONDS ?= 600

.PHONY: soak
soak: setup-test ## Disturb a running switch for ten minutes: leaks, counts, marked epochs; SOAK_SECONDS
	VERNIER_SOAK_SECONDS=$(SOAK_SECONDS) $(CARGO) nextest run -p switch -p daemon -E 'test(/^soak::/)' --locked --no-capture

# How long NATS is away in `make outage`.
OUTAGE_SECONDS ?= 60

.PHONY: outage
outage: setup-test ## NATS away for a minute, a station and a switch killed, and NATS without its store: what is counted; OUTAGE_SECONDS
	VERNIER_OUTAGE_SECONDS=$(OUTAGE_SECONDS) $(CARGO) nextest run --workspace -E 'test(/^outage::/)' --locked --no-capture

# `make simulate`: HOURS or MINUTES of wall time on all CPUs, or one SEED. It is built as part of the workspace, so that
# crates are built once for it and for `make test`: by itself it would ask for other features of them.
HOURS ?= 0
MINUTES ?= $(if $(filter 0,$(HOURS)),1,0)

.PHONY: simulate
simulate: setup-run ## Whole switches in a world with faults, by seeds: HOURS=1 or MINUTES=1 of wall time; SEED=n replays one; FLEET=1: hostile reports to stations
	$(BUILD_DEBUG)
	@target/debug/vernier-simulate $(if $(SEED),--seed '$(SEED)',--hours '$(HOURS)' --minutes '$(MINUTES)') \
	  $(if $(FLEET),--fleet) $(if $(PLANTED),--planted '$(PLANTED)')

.PHONY: simulate-planted
simulate-planted: setup-run ## Bugs planted in the engine: the simulation finds each within a minute on idle CPUs; this fails after three
	$(BUILD_DEBUG)
	@for bug in counted-twice doubled-marker early-close stale-shard; do \
	  echo "planted: $$bug"; target/debug/vernier-simulate --minutes 3 --planted $$bug --expect-violation; \
	done
	target/debug/vernier-simulate --fleet --minutes 3 --planted foreign-report --expect-violation

.PHONY: lint
lint: setup-run ## Formatting, words, sizes, clippy, documentation, licences: all must be silent
	$(call install_tool,deny,2)
	.ci/words
	.ci/size
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked --quiet
	$(CARGO) deny --locked --log-level error check bans licenses sources

# Where the advisories of crates are.
ADVISORIES := https://github.com/rustsec/advisory-db

.PHONY: audit
audit: setup-run ## Look the crates up among known advisories; says "skipped" where the network does not reach them
	$(call install_tool,deny,2)
	@if ! timeout 30 git ls-remote --exit-code --quiet $(ADVISORIES) HEAD >/dev/null 2>&1; then \
	  echo 'audit: skipped, $(ADVISORIES) cannot be reached from here'; \
	else \
	  $(CARGO) deny --locked --log-level error check advisories && echo 'audit: no known advisory'; \
	fi

.PHONY: docs
docs: ## Write the references in docs/ anew: configuration, its JSON Schema, metrics, what measurement keys change
	VERNIER_WRITE_DOCS=1 $(CARGO) nextest run -p api -p simulate -p report --locked -E 'test(/^(documents|measured|msp::tests)::.*_is_current$$/)'

# Further arguments of `make bench`, such as `--only io,everything` or `--rounds 9`.
BENCH_ARGS ?=
# Another commit whose vernierd runs in the same rounds: BASE=COMMIT. Its sources and its build stay in target/base.
BASE ?=
ifneq ($(BASE),)
BASE_COMMIT := $(or $(shell git rev-parse --short=7 --verify --quiet '$(BASE)^{commit}'),$(error BASE: $(BASE) is no commit))
BASE_FOLDER := target/base/$(BASE_COMMIT)
endif

.PHONY: bench
bench: setup-bench ## Throughput beside testpmd and Open vSwitch, in turn; STEPS=1: the cost of each step; BASE=COMMIT
	$(CARGO) build --release --locked -p daemon -p lab@0.1.0
	$(if $(BASE),mkdir -p '$(BASE_FOLDER)'; git archive '$(BASE_COMMIT)' | tar -x -C '$(BASE_FOLDER)'; \
	  cd '$(BASE_FOLDER)'; $(CARGO) build --release --locked --bin vernierd)
	@status=0; for part in throughput $(if $(STEPS),steps profile); do \
	  target/release/vernier-lab bench $$part --ovs '$(OVS_ROOT)' \
	    $(if $(BASE),--base '$(BASE_COMMIT)=$(BASE_FOLDER)/target/release/vernierd') $(BENCH_ARGS) || status=$$?; \
	done; exit $$status

.PHONY: instructions
instructions: setup-test ## Fail where a step takes 3 % more instructions than in .ci/instructions.txt; RENEW=1 writes it
	$(CARGO) build --release --locked -p daemon
	$(BUILD_DEBUG)
	target/debug/vernier-lab bench instructions .ci/instructions.txt --core 0 --programs target/release $(if $(RENEW),--renew)

# What `make profile` shows: a step (off_patch, off, stamps, lda, lds, flows, everything), and how finely it is divided.
STEP ?= everything
BY ?= function

.PHONY: profile
profile: setup-bench ## Nanoseconds and instructions of a STEP (everything) BY file, function or line
	$(CARGO) build --release --locked -p daemon -p lab@0.1.0
	target/release/vernier-lab bench profile '$(STEP)' --by '$(BY)'

.PHONY: bench-plugin
bench-plugin: setup-bench ## What the plugin costs testpmd and Open vSwitch, beside latencystats; BENCH_ARGS
	$(CARGO) build --release --locked -p daemon -p lab@0.1.0 -p plugin -p vhost
	$(SUDO) env "PATH=$$PATH" target/release/vernier-lab bench plugin --ovs '$(OVS_ROOT)' $(BENCH_ARGS)

.PHONY: bench-micro
bench-micro: setup-test ## What measuring costs a packet: nanoseconds, and instructions by callgrind
	$(CARGO) build --release --locked -p lab@0.1.0
	target/release/vernier-lab bench micro

.PHONY: bench-scrape
bench-scrape: setup-test ## What a scrape of ten thousand series costs, and what it does to the workers
	$(CARGO) build --release --locked -p daemon -p lab@0.1.0
	target/release/vernier-lab bench scrape $(BENCH_ARGS)

# Further arguments of `make wire`, such as `--only af_packet,loss-5` or `--keep /tmp/testbed`.
WIRE_ARGS ?=

.PHONY: wire
wire: setup-wire ## Reports of two switches on the path between them, compared with what happened; WIRE_ARGS
	$(CARGO) build --release --locked -p console@0.1.0 -p daemon -p lab@0.1.0
	$(SUDO) env "PATH=$$PATH" target/release/vernier-lab wire $(WIRE_ARGS)

# The version that machines are upgraded from, and its programs, where they are built already.
UPGRADE_FROM ?= 78f1034
OLD_PROGRAMS ?=

.PHONY: upgrade
upgrade: setup-station ## Programs of 78f1034 beside these, as on machines upgraded one at a time; UPGRADE_FROM=COMMIT, OLD_PROGRAMS=folder
	$(CARGO) build --locked -p console@0.1.0 -p daemon -p probe -p station
	$(if $(OLD_PROGRAMS),,mkdir -p 'target/base/$(UPGRADE_FROM)'; git archive '$(UPGRADE_FROM)' | tar -x -C 'target/base/$(UPGRADE_FROM)'; \
	  cd 'target/base/$(UPGRADE_FROM)'; $(CARGO) build --locked -p console@0.1.0 -p daemon -p probe -p station)
	$(SUDO) env "PATH=$$PATH" OLD_PROGRAMS='$(or $(OLD_PROGRAMS),target/base/$(UPGRADE_FROM)/target/debug)' NEW_PROGRAMS=target/debug \
	  unshare --net benches/upgrade.sh

# Further arguments of `make mplane`, such as `--seed 7`, `--faults 10`, `--quiet-minutes 5` or `--keep /tmp/testbed`.
MPLANE_ARGS ?=

.PHONY: mplane
mplane: setup-mplane ## Six routers with OSPF, two of them m-routers: faults, and whether the station names their place; MPLANE_ARGS
	$(CARGO) build --release --locked -p daemon -p lab@0.1.0 -p probe -p station
	$(SUDO) env "PATH=$$PATH" target/release/vernier-lab mplane $(MPLANE_ARGS)

# Further arguments of `make scale`, such as `--switches 2000` or `--seconds 10`.
SCALE_ARGS ?=

.PHONY: scale
scale: setup-station ## Reports as if from 1,000 switches, through one NATS server and two stations; SCALE_ARGS
	$(CARGO) build --release --locked -p station -p lab@0.1.0
	target/release/vernier-lab scale $(SCALE_ARGS)

# The networks that `make plan` takes: Rocketfuel's six autonomous systems.
PLANNED ?= $(sort $(wildcard ../shared/topologies/rocketfuel/*.weights.intra))

.PHONY: plan
plan: ## Which routers of six networks to upgrade, into benches/results/plan.md; PLANNED=files
	$(if $(PLANNED),,$(error PLANNED: there are no files; ../shared/topologies has Rocketfuel's))
	$(CARGO) build --release --locked -p console@0.1.0
	@{ echo '# Upgrades of networks'; \
	  echo; echo 'Written by `make plan`; [what it says](../../docs/planning.md). Mean is the mean length of a segment in hops.'; \
	  for file in $(PLANNED); do \
	    printf '\n## %s\n\n```\n' "$$(basename "$$file")"; \
	    (cd "$$(dirname "$$file")" && '$(CURDIR)/target/release/vernier' plan --topology "$$(basename "$$file")" --upgrade 50) | \
	      awk '!/^[0-9]+ / || $$1 % 5 == 0'; \
	    echo '```'; \
	  done; } > benches/results/plan.md

# Further arguments of `make nic`, such as `--only e1000e` or `--keep /tmp/guests`.
NIC_ARGS ?=

.PHONY: nic
nic: setup-nic ## Real PCI drivers (e1000e, vmxnet3, virtio) in a virtual machine: a table of what was shown; NIC_ARGS
	$(BUILD_DEBUG)
	$(SUDO) env "PATH=$$PATH" unshare --net target/debug/vernier-lab nic $(NIC_ARGS)

# The capture of `make accuracy`, beside the project where there is one.
CAPTURE ?= ../shared/traces/mix-dev-60s.pcap

.PHONY: accuracy
accuracy: ## Every method beside its paper's figures: tables into benches/results; CAPTURE=file
	$(CARGO) build --release --locked -p accuracy
	@status=0; \
	target/release/vernier-accuracy tables || status=$$?; \
	if [ -f '$(CAPTURE)' ]; then \
	  target/release/vernier-accuracy tables --capture '$(CAPTURE)' || status=$$?; \
	else \
	  echo 'No capture at $(CAPTURE): generated traffic only.'; \
	fi; \
	exit $$status

# Further arguments of `make fuzz`, such as `TARGETS='exchange rli'` and, for libFuzzer, `FUZZ_ARGS=-seed=1`.
TARGETS ?=
FUZZ_ARGS ?=

.PHONY: fuzz
fuzz: setup-test ## Fuzz parsers of bytes from outside and the state behind, SECONDS_PER_TARGET (60) each; TARGETS, FUZZ_JOBS, FUZZ_ARGS
	RUSTC_WORKSPACE_WRAPPER='$(CURDIR)/.ci/rustc-fuzz' CARGO_INCREMENTAL=0 \
	  $(CARGO) build --locked -p fuzz -p testkit --bin fuzz-targets --features fuzz/libfuzzer
	@seeds=$$(mktemp -d); trap 'rm -rf "$$seeds"' EXIT; \
	all=$$(FUZZ_SEEDS="$$seeds" target/debug/fuzz-targets 2>"$$seeds/log") || { cat "$$seeds/log" >&2; exit 1; }; \
	printf '%s\n' $(or $(TARGETS),$$all) | xargs -P '$(FUZZ_JOBS)' -n 1 \
	  env FUZZ_ARGS='$(FUZZ_ARGS)' benches/fuzz/run.sh target/debug/fuzz-targets "$$seeds" '$(SECONDS_PER_TARGET)'

# What runs: the bindings' tests, the engine's in memory and with devices, the plugin's, in virtual machines' switches, too.
SANITIZED_PACKAGES ?= -p dpdk-bindings -p switch -p plugin
SANITIZED_TESTS ?= --lib $(patsubst %.rs,--test %,$(notdir $(wildcard dpdk-bindings/tests/*.rs))) \
  $(addprefix --test ,host testpmd ports vhost) $(if $(findstring -p switch,$(SANITIZED_PACKAGES)),--test engine)
SANITIZED := target/sanitize/debug

# Other crates are those of `make test`, where they are built; the folder is another, since the plugin's library has one name in both. What
# another build removes meanwhile is built again.
# Leaks are not looked for: EAL keeps its arguments and DPDK much else until the process ends. Little that is freed is kept back, since
# a test watches what testpmd grows by.
.PHONY: sanitize
sanitize: setup-test ## Tests of the bindings, the engine and the plugin under AddressSanitizer
	@mkdir -p $(SANITIZED)/deps
	@if [ -d target/debug/deps ]; then \
	  cp --archive --no-clobber target/debug/.fingerprint target/debug/build $(SANITIZED) || :; \
	  find target/debug/deps -regex '.*-[0-9a-f]*\.\(rlib\|rmeta\|so\)' -exec cp --link --no-clobber -t $(SANITIZED)/deps {} + || :; \
	fi
	@export CARGO_TARGET_DIR='$(CURDIR)/target/sanitize' RUSTC_WORKSPACE_WRAPPER='$(CURDIR)/.ci/rustc-sanitize' \
	  VERNIER_SANITIZER=address VERNIER_SANITIZER_RUNTIME="$$(realpath "$$(gcc -print-file-name=libasan.so)")" \
	  ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16:exitcode=66 VERNIER_SOAK_SECONDS=5; \
	nextest() { $(CARGO) nextest "$$@" --locked $(SANITIZED_PACKAGES) $(SANITIZED_TESTS); }; \
	binaries=$$(nextest list --list-type binaries-only --message-format json | \
	  grep -oE '"binary-path":"[^"]+"' | cut -d'"' -f4); \
	for binary in $$binaries; do \
	  grep -qF __asan_init "$$binary" || { echo "sanitize: $$binary was built without the sanitizer" >&2; exit 1; }; \
	done; \
	nextest run; \
	echo "sanitize: AddressSanitizer saw no fault in $$(wc -w <<<"$$binaries") test binaries:" \
	  $$(sed -E 's|.*/||; s|-[0-9a-f]+$$||' <<<"$$binaries")

# Preemptions of a thread that `make loom` tries in one run, at most.
PREEMPTIONS ?= 3

.PHONY: loom
loom: setup-test ## What threads share in the control core, in every order that loom finds; PREEMPTIONS (3)
	LOOM_MAX_PREEMPTIONS=$(PREEMPTIONS) $(CARGO) nextest run --workspace --test orderings --features control/loom --locked

.PHONY: install
install: ## Install vernierd, vernier, vernier-probe, vernier-station and the plugin for other DPDK programs into PREFIX (default /usr/local)
	$(CARGO) build --release --locked -p daemon -p console -p plugin -p vhost -p probe -p station
	$(SUDO) install -D -t $(or $(PREFIX),/usr/local)/bin target/release/vernierd target/release/vernier target/release/vernier-probe \
	  target/release/vernier-station
	$(SUDO) install -D -m 644 -t $(or $(PREFIX),/usr/local)/lib/vernier target/release/librte_vernier.so target/release/libvernier_vhost.so

# The program that makes the book, and what the book is made from: the documents, and what they link to.
MDBOOK_VERSION := 0.5.4
BOOK_FILES := *.md LICENSE-* docs examples dashboards packages benches/results benches/lab/pktgen/README.md \
  control/contract/src/config/demo.json control/src/decode/tests.rs

.PHONY: book
book: setup-book ## The documents as a book with a search: target/book/html/docs/quick-start.html
	@rm -rf target/book && mkdir -p target/book/src
	@tar --create $(wildcard $(BOOK_FILES)) | tar --extract --directory target/book/src
	@mv target/book/src/docs/book.toml target/book/src
	@sed -E 's|\(([a-z])|(docs/\1|; s|\(\.\./|(|' docs/SUMMARY.md > target/book/src/SUMMARY.md && rm target/book/src/docs/SUMMARY.md
	@MDBOOK_LOG=warn $(TOOLS)/usr/bin/mdbook build target/book/src
	@.ci/book target/book/html

.PHONY: setup-book
setup-book: setup-run
	@$(TOOLS)/usr/bin/mdbook --version 2>/dev/null | grep -qF $(MDBOOK_VERSION) || { \
	  echo 'Compiling mdbook: about two minutes'; \
	  CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --quiet --locked --debug --root $(TOOLS)/usr --no-default-features --features search --version =$(MDBOOK_VERSION) mdbook; }

# What goes into packages depends on the commit alone: its time is that of all files, and paths of this machine are in none.
# Both apply to all that `make deb` runs.
COMMIT_TIME = $(or $(shell git log -1 --format=%ct 2>/dev/null),$(error SOURCE_DATE_EPOCH: give one, this is no clone))
CARGO_FOLDER = $(or $(CARGO_HOME),$(HOME)/.cargo)
deb: export SOURCE_DATE_EPOCH ?= $(COMMIT_TIME)
deb: export RUSTFLAGS := --remap-path-prefix=$(CURDIR)=/vernier --remap-path-prefix=$(CARGO_FOLDER)=/cargo
deb: export CFLAGS := -ffile-prefix-map=$(CURDIR)=/vernier -ffile-prefix-map=$(CARGO_FOLDER)=/cargo

# What is in the packages, by the crates that their programs are made of.
BILLS := daemon console probe station plugin vhost

.PHONY: deb
deb: setup-deb ## Debian packages vernier and vernier-plugin-dpdk23, in target/debian, with bills of materials in target/deb/bills
	$(CARGO) build --release --locked -p daemon -p console@0.1.0 -p probe -p station -p plugin -p vhost -p manual
	@rm -rf target/deb && mkdir -p target/deb/bills
	@packages/bills target/deb/bills $(BILLS)
	@target/release/vernier-manual target/deb/manual
	@for script in target/deb/manual/bash/*.bash; do mv "$$script" "$${script%.bash}"; done
	@for file in vernier vernier-probe vernier-station libvernier_vhost.so; do \
	  strip --strip-unneeded -o target/deb/$$file target/release/$$file; done
	@for unit in vernierd vernier-station vernier-probe; do \
	  sed 's|/usr/local/bin|/usr/bin|' examples/$$unit.service > target/deb/$$unit.service; done
	$(CARGO) deb --quiet -p daemon --no-build --locked --strip
	$(CARGO) deb --quiet -p plugin --no-build --locked --strip

.PHONY: reproducible
reproducible: setup-deb ## Build the packages of HEAD in two folders, and fail unless they have the same bytes
	@rm -rf target/reproducible
	@for folder in one another/of-longer-name; do \
	  mkdir -p target/reproducible/$$folder; \
	  git archive HEAD | tar -x -C target/reproducible/$$folder; \
	  $(MAKE) --no-print-directory -C target/reproducible/$$folder deb SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); \
	done
	@packages/same target/reproducible/one target/reproducible/another/of-longer-name

# A Debian root by debootstrap. $(1): folder, $(2): packages in addition to the smallest set.
define debian_root
	@[ -x $(1)/usr/bin/apt-get ] || { $(SUDO) rm -rf $(1) && mkdir -p $(dir $(1)) && \
	  $(SUDO) debootstrap --variant=minbase --include=$$(tr ' ' , <<< 'ca-certificates $(2)') bookworm $(1) http://deb.debian.org/debian >/dev/null; }
endef

.PHONY: deb-test
deb-test: deb ## Install the packages in a clean Debian, start the unit under systemd, purge them; root
	$(call install_packages,debootstrap systemd-container)
	@$(SUDO) rm -rf target/deb-root
	$(call debian_root,target/deb-root,systemd systemd-sysv dbus curl)
	$(SUDO) packages/test.sh target/deb-root

.PHONY: container-root
container-root: deb ## What the Containerfiles in packages/container begin with, in target/container
	$(call install_packages,debootstrap)
	$(call debian_root,target/container/root,curl)
	@$(SUDO) tar --create --directory target/container/root --file target/container/root.tar .
	@cp target/debian/vernier_*.deb target/container/vernier.deb
	@cp target/debian/vernier-plugin-dpdk23_*.deb target/container/vernier-plugin.deb
	@cp packages/container/ovs.sh target/container/

.PHONY: setup-deb
setup-deb: setup-run
	$(call install_packages,dpkg-dev)
	$(call install_tool,deb,2)
	@command -v cargo-cyclonedx >/dev/null || $(CARGO) install --quiet --locked --debug --root $(TOOLS)/usr --version =0.5.9 cargo-cyclonedx

# Installs the packages in $(1) that are missing, and says so first.
define install_packages
	@missing=$$(for package in $(1); do \
	  dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || echo $$package; \
	done | tr '\n' ' '); \
	if [ -n "$$missing" ]; then \
	  echo "Installing Debian packages: $$missing"; \
	  $(SUDO) apt-get update -qq; \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi
	@command -v $(CARGO) >/dev/null || { echo "No Rust toolchain: install it with rustup (https://rustup.rs), then try again." >&2; exit 1; }
endef

# Compiles cargo-$(1) if it is missing, which takes about $(2) minutes; without optimisation, which would take longer than it saves.
define install_tool
	@command -v cargo-$(1) >/dev/null || { echo 'Compiling cargo-$(1): about $(2) minutes'; \
	  CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --quiet --locked --debug cargo-$(1); }
endef

.PHONY: setup-run
setup-run:
	$(call install_packages,$(RUN_PACKAGES))

.PHONY: setup-station
setup-station: setup-run $(TOOLS)/usr/sbin/nats-server

.PHONY: setup-test
setup-test: $(TOOLS)/usr/bin/promtool $(TOOLS)/usr/sbin/nats-server $(TOOLS)/usr/bin/stamp-suite \
  $(TOOLS)/usr/bin/nfdump $(TOOLS)/usr/sbin/nfacctd
	$(call install_packages,$(TEST_PACKAGES) $$(apt-cache depends $(PEER_PACKAGES) | sed -n 's/^ *Depends: \(lib.*\)/\1/p' | sort -u))
	$(call install_tool,nextest,3)
	@[ -e '$(OVS_ROOT)/$(OVS_DPDK)' ] || { $(call unpack,$(OVS_PACKAGES)); } || \
	  echo 'Open vSwitch cannot be unpacked: tests and benchmarks do without.' >&2
	@[ -e /$(FRR_OSPFD) ] || [ -e '$(TOOLS)/$(FRR_OSPFD)' ] || { $(call unpack,frr); } || echo 'FRR cannot be unpacked: tests do without.' >&2

# Routers, NATS and all else are what tests need.
.PHONY: setup-mplane
setup-mplane: setup-test

.PHONY: setup-wire
setup-wire: setup-test
	$(call install_packages,$(WIRE_PACKAGES))

.PHONY: setup-nic
setup-nic: setup-run
	$(call install_packages,$(NIC_PACKAGES))
	@[ -e $(TOOLS)/nic/complete ] || { \
	  rm -rf $(TOOLS)/nic && mkdir -p $(TOOLS)/nic && cd $(TOOLS)/nic && \
	  fetch() { apt-get download -qq "$$(apt-cache depends $(NIC_KERNEL) | sed -n 's/.*Depends: \(linux-image-\)/\1/p')"; } && \
	  { fetch 2>/dev/null || { $(SUDO) apt-get update -qq && fetch; }; } && \
	  dpkg-deb --fsys-tarfile linux-image-*.deb | tar --extract --wildcards $(NIC_FILES:%='*/%') && \
	  rm linux-image-*.deb && touch complete; \
	} || echo 'No kernel for a guest can be unpacked: make nic cannot run.' >&2

.PHONY: setup-bench
setup-bench: setup-test
	$(call install_packages,$(BENCH_PACKAGES))

# The peer of vernier-probe's tests, built without optimisation: sixty packets need none.
$(TOOLS)/usr/bin/stamp-suite:
	@echo 'Compiling stamp-suite, the STAMP peer of the tests: about a minute'
	@CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --quiet --locked --debug --root $(TOOLS)/usr --version =1.0.0 stamp-suite

# Unpacks the Debian packages $(1) beside the sources.
unpack = mkdir -p $(TOOLS)/packages && cd $(TOOLS)/packages && \
  { apt-get download -qq $(1) 2>/dev/null || { $(SUDO) apt-get update -qq && apt-get download -qq $(1); }; } && \
  for package in *.deb; do dpkg -x "$$package" $(TOOLS); done && rm -r $(TOOLS)/packages

# Since Debian 13 promtool has a package of its own.
$(TOOLS)/usr/bin/promtool:
	@$(call unpack,prometheus)
	@[ -e $@ ] || { $(call unpack,promtool); }

$(TOOLS)/usr/sbin/nats-server:
	@$(call unpack,nats-server)

$(TOOLS)/usr/bin/nfdump:
	@$(call unpack,nfdump)

$(TOOLS)/usr/sbin/nfacctd:
	@$(call unpack,pmacct)
