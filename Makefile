# Vernier's entry points, for people and for CI alike. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# Prometheus, NATS and IPFIX collectors are unpacked here instead of installed, because their packages would start services.
TOOLS := $(CURDIR)/.tools
export PATH := $(TOOLS)/usr/bin:$(TOOLS)/usr/sbin:$(HOME)/.cargo/bin:$(PATH)

# Programs in target/debug. CI builds the tests, too: they select other features of dependencies, which are then built only once.
BUILD_DEBUG = $(CARGO) build --locked --workspace --bins --lib $(if $(CI),--tests)

# Time that `make fuzz` spends on each target.
SECONDS_PER_TARGET ?= 60
# Targets that `make fuzz` runs at a time.
FUZZ_JOBS ?= $(shell nproc)

# The release of Debian (or Ubuntu) on this machine: its name for debootstrap, and as the end of a package's version.
CODENAME := $(shell . /etc/os-release && echo $$VERSION_CODENAME)
REVISION := $(shell . /etc/os-release && echo "1~$${ID/#debian/deb}$$VERSION_ID")

# Packages that a Debian machine needs to build and run, and to test.
RUN_PACKAGES := libdpdk-dev dpdk libpcap-dev pkg-config gcc libc6-dev
TEST_PACKAGES := $(RUN_PACKAGES) g++ dpdk-dev iproute2 iputils-ping iperf3 nftables ethtool tcpdump valgrind faketime systemd chromium-headless-shell \
  tshark curl jq

# Peers of the tests. They are unpacked beside the sources, since these packages would start services; their libraries are installed.
PEER_PACKAGES := frr nfdump pmacct openvswitch-switch openvswitch-switch-dpdk

# Routers with OSPF, for tests.
FRR_OSPFD := usr/lib/frr/ospfd

# Further packages of `make bench`, for STEPS=1.
BENCH_PACKAGES := linux-perf binutils

OVS_PACKAGES := openvswitch-common openvswitch-switch openvswitch-switch-dpdk
OVS_DPDK := usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk
OVS_ROOT = $(if $(wildcard /$(OVS_DPDK)),/,$(TOOLS))

# Further packages of `make wire`, including a tool for crafting attacks.
WIRE_PACKAGES := python3-scapy util-linux procps

# Further packages of `make nic`. The guest's kernel is unpacked, not installed.
NIC_PACKAGES := qemu-system-x86 busybox-static cpio iproute2
NIC_KERNEL := linux-image-amd64
NIC_FILES := boot/vmlinuz-* 9p/* netfs/* fscache/* vfio/* virtio/* virtio_console.ko irqbypass.ko

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

.PHONY: run
run: setup-run ## Build and run the switch with a live table; PCAP=file, CONFIG=file, DURATION=seconds
	@for file in $(if $(CONFIG),'$(CONFIG)') $(if $(PCAP),'$(PCAP)'); do [ -r "$$file" ] || { echo "$$file cannot be read" >&2; exit 2; }; done
	@$(CARGO) build --release --locked -p daemon -p console
	@target/release/vernierd --live \
	  $(if $(CONFIG),--config '$(CONFIG)') $(if $(PCAP),--pcap '$(PCAP)') \
	  $(if $(DURATION),--duration '$(DURATION)')

# The station's port; the switches and NATS use the next three.
STATION_PORT ?= 9465

.PHONY: station
station: setup-station ## Run NATS, two switches with a wire between them, and a station, and show the path; DURATION=seconds
	@$(CARGO) build --release --locked -p daemon -p console -p station
	@STATION_PORT='$(STATION_PORT)' examples/station.sh $(DURATION)

# The demonstration of `make demo`, which lists them if this is empty.
NAME ?=

.PHONY: demo
demo: $(if $(NAME),setup-demo) ## Show what Vernier is for, in half a minute: NAME=firewall, sites, class or ovs
	@$(if $(NAME),$(CARGO) build --release --locked -p daemon -p console@0.1.0 -p station -p plugin)
	@examples/demo.sh $(NAME)

# Tests that run at a time. Most wait for other programs, so two for each CPU keep it busy.
TEST_THREADS ?= $(shell expr 2 '*' $$(nproc))

.PHONY: test
test: setup-test ## Install missing packages and run the whole test suite
	$(BUILD_DEBUG)
	$(CARGO) nextest run --workspace --locked --test-threads $(TEST_THREADS) $(NEXTEST_ARGS)

# Duration of `make soak`.
SOAK_SECONDS ?= 600

.PHONY: soak
soak: setup-test ## Disturb a running switch for ten minutes; check leaks, counts and marked epochs; SOAK_SECONDS
	VERNIER_SOAK_SECONDS=$(SOAK_SECONDS) $(CARGO) nextest run -p switch -p daemon -E 'test(/^soak::/)' --locked --no-capture

# Duration of the NATS outage in `make outage`.
OUTAGE_SECONDS ?= 60

.PHONY: outage
outage: setup-test ## Stop NATS for a minute, kill a station and a switch, delete the NATS store; check all counts; OUTAGE_SECONDS
	VERNIER_OUTAGE_SECONDS=$(OUTAGE_SECONDS) $(CARGO) nextest run --workspace -E 'test(/^outage::/)' --locked --no-capture

# `make simulate`: HOURS or MINUTES of wall time on all CPUs, or one SEED. It is built as part of the workspace, so that
# it shares crates with `make test`: built alone, it would select other features.
HOURS ?= 0
MINUTES ?= $(if $(filter 0,$(HOURS)),1,0)

.PHONY: simulate
simulate: setup-run ## Simulate switches with faults, seed after seed: HOURS=1 or MINUTES=1 of wall time; SEED=n replays one; FLEET=1: hostile reports to stations
	$(BUILD_DEBUG)
	@target/debug/vernier-simulate $(if $(SEED),--seed '$(SEED)',--hours '$(HOURS)' --minutes '$(MINUTES)') \
	  $(if $(FLEET),--fleet) $(if $(PLANTED),--planted '$(PLANTED)')

.PHONY: simulate-planted
simulate-planted: setup-run ## Check that the simulation finds planted bugs: within a minute each on idle CPUs; fails after three
	$(BUILD_DEBUG)
	@for bug in counted-twice doubled-marker early-close stale-shard; do \
	  echo "planted: $$bug"; target/debug/vernier-simulate --minutes 3 --planted $$bug --expect-violation; \
	done
	target/debug/vernier-simulate --fleet --minutes 3 --planted foreign-report --expect-violation

.PHONY: lint
lint: setup-run ## Check formatting, words, sizes, clippy, documentation and licences
	$(call install_tool,deny,2)
	.ci/words
	.ci/size
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked --quiet
	$(CARGO) deny --locked --log-level error check bans licenses sources

# The database of advisories.
ADVISORIES := https://github.com/rustsec/advisory-db

.PHONY: audit
audit: setup-run ## Check dependencies against known advisories; prints "skipped" without network
	$(call install_tool,deny,2)
	@if ! timeout 30 git ls-remote --exit-code --quiet $(ADVISORIES) HEAD >/dev/null 2>&1; then \
	  echo 'audit: skipped, $(ADVISORIES) cannot be reached from here'; \
	else \
	  $(CARGO) deny --locked --log-level error check advisories && echo 'audit: no known advisory'; \
	fi

.PHONY: docs
docs: ## Regenerate the references in docs/: configuration, JSON Schema, metrics, measurement keys, report
	VERNIER_WRITE_DOCS=1 $(CARGO) nextest run -p api -p simulate -p report --locked -E 'test(/^(documents|measured|msp::tests)::.*_is_current$$/)'

# Further arguments of `make bench`, such as `--only io,everything` or `--rounds 9`.
BENCH_ARGS ?=
# A commit to compare with in the same rounds: BASE=COMMIT. Its sources and build are kept in target/base.
BASE ?=
ifneq ($(BASE),)
BASE_COMMIT := $(or $(shell git rev-parse --short=7 --verify --quiet '$(BASE)^{commit}'),$(error BASE: $(BASE) is no commit))
BASE_FOLDER := target/base/$(BASE_COMMIT)
endif

.PHONY: bench
bench: setup-bench ## Compare throughput with testpmd and Open vSwitch; STEPS=1: cost of each step; BASE=COMMIT: compare with a commit
	$(CARGO) build --release --locked -p daemon -p lab
	$(if $(BASE),mkdir -p '$(BASE_FOLDER)'; git archive '$(BASE_COMMIT)' | tar -x -C '$(BASE_FOLDER)'; \
	  cd '$(BASE_FOLDER)'; $(CARGO) build --release --locked --bin vernierd)
	@status=0; for part in throughput $(if $(STEPS),steps profile); do \
	  target/release/vernier-lab bench $$part --ovs '$(OVS_ROOT)' \
	    $(if $(BASE),--base '$(BASE_COMMIT)=$(BASE_FOLDER)/target/release/vernierd') $(BENCH_ARGS) || status=$$?; \
	done; exit $$status

.PHONY: instructions
instructions: setup-test ## Fail if a step takes 3 % more instructions than in .ci/instructions.txt; RENEW=1 rewrites the file
	$(CARGO) build --release --locked -p daemon
	$(BUILD_DEBUG)
	target/debug/vernier-lab bench instructions .ci/instructions.txt --core 0 --programs target/release $(if $(RENEW),--renew)

# The step that `make profile` shows (off_patch, off, stamps, lda, lds, flows, everything), and its level of detail.
STEP ?= everything
BY ?= function

.PHONY: profile
profile: setup-bench ## Show nanoseconds and instructions of a STEP (everything) BY file, function or line
	$(CARGO) build --release --locked -p daemon -p lab
	target/release/vernier-lab bench profile '$(STEP)' --by '$(BY)'

.PHONY: bench-plugin
bench-plugin: setup-bench ## Measure the cost of the plugin in testpmd and Open vSwitch, beside latencystats; BENCH_ARGS
	$(CARGO) build --release --locked -p daemon -p lab -p plugin -p vhost
	$(SUDO) env "PATH=$$PATH" target/release/vernier-lab bench plugin --ovs '$(OVS_ROOT)' $(BENCH_ARGS)

.PHONY: bench-micro
bench-micro: setup-test ## Measure the cost of measuring a packet: nanoseconds, and instructions by callgrind
	$(CARGO) build --release --locked -p lab
	target/release/vernier-lab bench micro

.PHONY: bench-scrape
bench-scrape: setup-test ## Measure the cost of a scrape of ten thousand series, and its effect on the workers
	$(CARGO) build --release --locked -p daemon -p lab
	target/release/vernier-lab bench scrape $(BENCH_ARGS)

# Further arguments of `make wire`, such as `--only af_packet,loss-5` or `--keep /tmp/testbed`.
WIRE_ARGS ?=

.PHONY: wire
wire: setup-wire ## Compare what two switches report about the path between them with the truth; WIRE_ARGS
	$(CARGO) build --release --locked -p console -p daemon -p lab
	$(SUDO) env "PATH=$$PATH" target/release/vernier-lab wire $(WIRE_ARGS)

# The version to upgrade from, and its programs if they are already built.
UPGRADE_FROM ?= 78f1034
OLD_PROGRAMS ?=

.PHONY: upgrade
upgrade: setup-station ## Run programs of 78f1034 beside current ones, as during an upgrade; UPGRADE_FROM=COMMIT, OLD_PROGRAMS=folder
	$(CARGO) build --locked -p console -p daemon -p probe -p station
	$(if $(OLD_PROGRAMS),,mkdir -p 'target/base/$(UPGRADE_FROM)'; git archive '$(UPGRADE_FROM)' | tar -x -C 'target/base/$(UPGRADE_FROM)'; \
	  cd 'target/base/$(UPGRADE_FROM)'; $(CARGO) build --locked -p console -p daemon -p probe -p station)
	$(SUDO) env "PATH=$$PATH" OLD_PROGRAMS='$(or $(OLD_PROGRAMS),target/base/$(UPGRADE_FROM)/target/debug)' NEW_PROGRAMS=target/debug \
	  unshare --net benches/upgrade.sh

# Further arguments of `make mplane`, such as `--seed 7`, `--faults 10`, `--quiet-minutes 5` or `--keep /tmp/testbed`.
MPLANE_ARGS ?=

.PHONY: mplane
mplane: setup-mplane ## Put faults into a network of six OSPF routers; check that the station locates them; MPLANE_ARGS
	$(CARGO) build --release --locked -p daemon -p lab -p probe -p station
	$(SUDO) env "PATH=$$PATH" target/release/vernier-lab mplane $(MPLANE_ARGS)

# Further arguments of `make scale`, such as `--switches 2000` or `--seconds 10`.
SCALE_ARGS ?=

.PHONY: scale
scale: setup-station ## Send reports of 1,000 simulated switches through one NATS server to two stations; SCALE_ARGS
	$(CARGO) build --release --locked -p station -p lab
	target/release/vernier-lab scale $(SCALE_ARGS)

# The networks of `make plan`: Rocketfuel's six autonomous systems.
PLANNED ?= $(sort $(wildcard ../shared/topologies/rocketfuel/*.weights.intra))

.PHONY: plan
plan: ## Compute which routers of six networks to upgrade, into benches/results/plan.md; PLANNED=files
	$(if $(PLANNED),,$(error PLANNED: there are no files; ../shared/topologies has Rocketfuel's))
	$(CARGO) build --release --locked -p console
	@{ echo '# Upgrades of networks'; \
	  echo; echo 'Written by `make plan`; see [the methods](../../docs/planning.md). Mean is the mean length of a segment in hops.'; \
	  for file in $(PLANNED); do \
	    printf '\n## %s\n\n```\n' "$$(basename "$$file")"; \
	    (cd "$$(dirname "$$file")" && '$(CURDIR)/target/release/vernier' plan --topology "$$(basename "$$file")" --upgrade 50) | \
	      awk '!/^[0-9]+ / || $$1 % 5 == 0'; \
	    echo '```'; \
	  done; } > benches/results/plan.md

# Further arguments of `make nic`, such as `--only e1000e` or `--keep /tmp/guests`.
NIC_ARGS ?=

.PHONY: nic
nic: setup-nic ## Test real PCI drivers (e1000e, vmxnet3, virtio) in a virtual machine; NIC_ARGS
	$(BUILD_DEBUG)
	$(SUDO) env "PATH=$$PATH" unshare --net target/debug/vernier-lab nic $(NIC_ARGS)

# The capture of `make accuracy`, if it exists.
CAPTURE ?= ../shared/traces/mix-dev-60s.pcap

.PHONY: accuracy
accuracy: ## Compare every method with the figures of its paper; tables into benches/results; CAPTURE=file
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
fuzz: setup-test ## Fuzz parsers of outside data and the state behind them, SECONDS_PER_TARGET (60) each; TARGETS, FUZZ_JOBS, FUZZ_ARGS
	RUSTC_WORKSPACE_WRAPPER='$(CURDIR)/.ci/rustc-fuzz' CARGO_INCREMENTAL=0 \
	  $(CARGO) build --locked -p fuzz -p testkit --bin fuzz-targets --features fuzz/libfuzzer
	@seeds=$$(mktemp -d); trap 'rm -rf "$$seeds"' EXIT; \
	all=$$(FUZZ_SEEDS="$$seeds" target/debug/fuzz-targets 2>"$$seeds/log") || { cat "$$seeds/log" >&2; exit 1; }; \
	printf '%s\n' $(or $(TARGETS),$$all) | xargs -P '$(FUZZ_JOBS)' -n 1 \
	  env FUZZ_ARGS='$(FUZZ_ARGS)' benches/fuzz/run.sh target/debug/fuzz-targets "$$seeds" '$(SECONDS_PER_TARGET)'

# The sanitized tests: of the bindings, of the engine in memory and with devices, and of the plugin, including vhost ports.
SANITIZED_PACKAGES ?= -p dpdk-bindings -p switch -p plugin
SANITIZED_TESTS ?= --lib $(patsubst %.rs,--test %,$(notdir $(wildcard dpdk-bindings/tests/*.rs))) \
  $(addprefix --test ,host testpmd ports vhost) $(if $(findstring -p switch,$(SANITIZED_PACKAGES)),--test engine)
SANITIZED := target/sanitize/debug

# Third-party crates are copied from `make test` if they are built there. The folder is a separate one, because the plugin's library has the
# same name in both. Crates that another build removes meanwhile are rebuilt.
# Leaks are not checked, because EAL and DPDK keep much memory until the process ends. The quarantine is small, because a test watches
# testpmd's memory.
.PHONY: sanitize
sanitize: setup-test ## Run the tests of bindings, engine and plugin under AddressSanitizer
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

# Most preemptions of a thread that `make loom` tries in one run.
PREEMPTIONS ?= 3

.PHONY: loom
loom: setup-test ## Check thread interleavings of the control core with loom; PREEMPTIONS (3)
	LOOM_MAX_PREEMPTIONS=$(PREEMPTIONS) $(CARGO) nextest run --workspace --test orderings --features control/loom --locked

.PHONY: install
install: setup-run ## Install the programs and the plugin into PREFIX (default /usr/local)
	$(CARGO) build --release --locked -p daemon -p console -p plugin -p vhost -p probe -p station
	$(SUDO) install -D -t $(or $(PREFIX),/usr/local)/bin target/release/vernierd target/release/vernier target/release/vernier-probe \
	  target/release/vernier-station
	$(SUDO) install -D -m 644 -t $(or $(PREFIX),/usr/local)/lib/vernier target/release/librte_vernier.so target/release/libvernier_vhost.so
	$(SUDO) install -t $(or $(PREFIX),/usr/local)/lib/vernier packages/plugin/take-back

# The program that makes the book, and the contents of the book: the documents, and the files that they link to.
MDBOOK_VERSION := 0.5.4
BOOK_FILES := *.md LICENSE-* docs examples dashboards packages benches/results benches/lab/pktgen/README.md \
  control/contract/src/config/demo.json control/src/decode/tests.rs

.PHONY: book
book: setup-book ## Build the documentation as a searchable book: target/book/html/docs/quick-start.html
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

# Packages depend on the commit alone: all files have its time, and none contains a path of this machine.
# Both settings apply to everything that `make deb` runs.
COMMIT_TIME = $(or $(shell git log -1 --format=%ct 2>/dev/null),$(error SOURCE_DATE_EPOCH: give one, this is no clone))
CARGO_FOLDER = $(or $(CARGO_HOME),$(HOME)/.cargo)
deb: export SOURCE_DATE_EPOCH ?= $(COMMIT_TIME)
deb: export RUSTFLAGS := --remap-path-prefix=$(CURDIR)=/vernier --remap-path-prefix=$(CARGO_FOLDER)=/cargo
deb: export CFLAGS := -ffile-prefix-map=$(CURDIR)=/vernier -ffile-prefix-map=$(CARGO_FOLDER)=/cargo

# The crates whose bills of materials are in the packages.
BILLS := daemon console probe station plugin vhost

.PHONY: deb
deb: setup-deb ## Build the Debian packages vernier and vernier-plugin in target/debian, with bills of materials in target/deb/bills
	$(CARGO) build --release --locked -p daemon -p console -p probe -p station -p plugin -p vhost -p manual
	@rm -rf target/deb target/debian && mkdir -p target/deb/bills
	@packages/bills target/deb/bills $(BILLS)
	@target/release/vernier-manual target/deb/manual
	@for script in target/deb/manual/bash/*.bash; do mv "$$script" "$${script%.bash}"; done
	@for file in vernier vernier-probe vernier-station libvernier_vhost.so; do \
	  strip --strip-unneeded -o target/deb/$$file target/release/$$file; done
	@for unit in vernierd vernier-station vernier-probe; do \
	  sed 's|/usr/local/bin|/usr/bin|' examples/$$unit.service > target/deb/$$unit.service; done
	@for package in daemon plugin; do \
	  $(CARGO) deb --quiet -p $$package --no-build --locked --strip --deb-revision '$(REVISION)'; done

.PHONY: reproducible
reproducible: setup-deb ## Build the packages of HEAD in two folders, and fail unless they are identical
	@rm -rf target/reproducible
	@for folder in one another/of-longer-name; do \
	  mkdir -p target/reproducible/$$folder; \
	  git archive HEAD | tar -x -C target/reproducible/$$folder; \
	  $(MAKE) --no-print-directory -C target/reproducible/$$folder deb SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); \
	done
	@packages/same target/reproducible/one target/reproducible/another/of-longer-name

# Makes a Debian root with debootstrap. $(1): folder, $(2): packages in addition to the minimal set.
define debian_root
	@[ -x $(1)/usr/bin/apt-get ] || { $(SUDO) rm -rf $(1) && mkdir -p $(dir $(1)) && \
	  $(SUDO) debootstrap --variant=minbase --include=$$(tr ' ' , <<< 'ca-certificates $(2)') $(CODENAME) $(1) http://deb.debian.org/debian >/dev/null; }
endef

.PHONY: deb-test
deb-test: deb ## Install the packages in a clean Debian, start the unit under systemd, purge them; needs root
	$(call install_packages,debootstrap systemd-container)
	@$(SUDO) rm -rf target/deb-root
	$(call debian_root,target/deb-root,systemd systemd-sysv dbus curl)
	$(SUDO) packages/test.sh target/deb-root

.PHONY: container-root
container-root: deb ## Prepare the root file system for the Containerfiles in packages/container, in target/container
	$(call install_packages,debootstrap)
	$(call debian_root,target/container/root,curl)
	@$(SUDO) tar --create --directory target/container/root --file target/container/root.tar .
	@cp target/debian/vernier_*.deb target/container/vernier.deb
	@cp target/debian/vernier-plugin_*.deb target/container/vernier-plugin.deb
	@cp packages/container/ovs.sh target/container/

# The root of another release, and what to run there: arguments of make.
RELEASE ?= $(if $(filter trixie,$(CODENAME)),bookworm,trixie)
RUN ?= test deb-test

.PHONY: on-release
on-release: ## Run targets on another Debian release, in a root made by debootstrap: RELEASE=trixie, RUN='test deb-test'
	$(call install_packages,debootstrap)
	$(SUDO) env "PATH=$$PATH" CARGO_HOME='$(CARGO_FOLDER)' TOOLCHAIN="$$(rustc --print sysroot)" .ci/on-release '$(RELEASE)' $(RUN)

.PHONY: release
release: ## Make all files of a release for Debian 12 and 13, and check that versions agree: VERSION=x.y.z
	@packages/release '$(VERSION)'

.PHONY: setup-deb
setup-deb: setup-run
	$(call install_packages,dpkg-dev)
	$(call install_tool,deb,2)
	@command -v cargo-cyclonedx >/dev/null || $(CARGO) install --quiet --locked --debug --root $(TOOLS)/usr --version =0.5.9 cargo-cyclonedx

# Installs the missing packages of $(1), and prints them first.
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

# Compiles cargo-$(1) if it is missing, in about $(2) minutes; unoptimised, because optimising takes longer than it saves.
define install_tool
	@command -v cargo-$(1) >/dev/null || { echo 'Compiling cargo-$(1): about $(2) minutes'; \
	  CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --quiet --locked --debug cargo-$(1); }
endef

.PHONY: setup-run
setup-run:
	$(call install_packages,$(RUN_PACKAGES))

.PHONY: setup-station
setup-station: setup-run $(TOOLS)/usr/sbin/nats-server

.PHONY: setup-demo
setup-demo: setup-station
	$(call install_packages,iproute2 nftables $(if $(filter ovs,$(NAME)),$(call libraries,$(OVS_PACKAGES))))
	$(if $(filter ovs,$(NAME)),@$(unpack_ovs))

.PHONY: setup-test
setup-test: $(TOOLS)/usr/bin/promtool $(TOOLS)/usr/sbin/nats-server $(TOOLS)/usr/bin/stamp-suite \
  $(TOOLS)/usr/bin/nfdump $(TOOLS)/usr/sbin/nfacctd
	$(call install_packages,$(TEST_PACKAGES) $(call libraries,$(PEER_PACKAGES)))
	$(call install_tool,nextest,3)
	@$(unpack_ovs) || echo 'Open vSwitch cannot be unpacked: tests and benchmarks do without.' >&2
	@[ -e /$(FRR_OSPFD) ] || [ -e '$(TOOLS)/$(FRR_OSPFD)' ] || { $(call unpack,frr); } || echo 'FRR cannot be unpacked: tests do without.' >&2

# The tests need the same routers, NATS and tools.
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

# The STAMP peer of vernier-probe's tests, unoptimised: enough for sixty packets.
$(TOOLS)/usr/bin/stamp-suite: | setup-run
	@echo 'Compiling stamp-suite, the STAMP peer of the tests: about a minute'
	@CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --quiet --locked --debug --root $(TOOLS)/usr --version =1.0.0 stamp-suite

# Unpacks the Debian packages $(1) beside the sources.
unpack = mkdir -p $(TOOLS)/packages && cd $(TOOLS)/packages && \
  { apt-get download -qq $(1) 2>/dev/null || { $(SUDO) apt-get update -qq && apt-get download -qq $(1); }; } && \
  for package in *.deb; do dpkg -x "$$package" $(TOOLS); done && rm -r $(TOOLS)/packages

unpack_ovs = { [ -e '$(OVS_ROOT)/$(OVS_DPDK)' ] || { $(call unpack,$(OVS_PACKAGES)); }; }

# Libraries that the Debian packages $(1) depend on.
libraries = $$(apt-cache depends $(1) | sed -n 's/^ *Depends: \(lib.*\)/\1/p' | sort -u)

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
