# SPDX-License-Identifier: Apache-2.0 OR MIT
# Everything that can be done with this clone. `make` lists it.
#
# packaging/setup.sh installs what is missing; packaging/tools.sh finds the tools and keeps files the clone owner's
# under sudo; packaging/step.sh shows one line per step and the whole output of a step that failed.

SHELL     := /bin/bash
PREFIX    ?= /usr/local
PYTHON    := .venv/bin/python
SETUP     := packaging/setup.sh
TOOLS     := packaging/tools.sh
AS_ROOT   := $(TOOLS) --root
STEP      := $(TOOLS) packaging/step.sh
LOG       := target/log
RUFF      := $(PYTHON) -m ruff
# Outside lab/, ruff does not find the configuration by itself.
RUFF_REST := --config lab/pyproject.toml .ci p4 packaging proofs vectors $(wildcard tests)
# Tests run the programs that are built like the tests: with all checks of a debug build, and every crate compiled once.
# Where `make build` has put its programs, nothing changes.
PROGRAMS  := $(CURDIR)/target/debug
TEST      := $(AS_ROOT) env DIOLKOS_PROGRAMS=$(PROGRAMS) $(PYTHON)
UNITS     := $(notdir $(wildcard packaging/systemd/*.service))
# Tests in networks wait most of the time (one takes half a second of CPU time in two to three seconds), and each has namespaces
# of its own: three times as many at once as there are CPUs.
CPUS      := $(shell nproc)
NET_JOBS  ?= $(shell expr 3 \* $(CPUS))
# The lab's compute more.
LAB_JOBS  ?= $(shell expr $(CPUS) + 1)
SHELL_SRC := .ci/run $(wildcard packaging/*.sh) packaging/diolkos-lab packaging/systemd/after-stop packaging/systemd/option108 tests/services/boot.sh packaging/lab/diolkos-lab packaging/lab/diolkos-lab-setup $(wildcard packaging/debian/*.p* tests/packages/*.sh fuzz/*.sh) $(wildcard lab/src/diolkos_lab/guest/*.sh lab/src/diolkos_lab/sut/scripts/*.sh)
define LINT_REST
@$(STEP) "ruff" $(LOG)/ruff.log sh -c '$(RUFF) check lab && $(RUFF) check $(RUFF_REST)'
@$(STEP) "mypy" $(LOG)/mypy.log sh -c 'cd lab && ../$(PYTHON) -m mypy'
@$(STEP) "vectors" $(LOG)/vectors.log $(PYTHON) vectors/make.py --check
@$(STEP) "shellcheck" $(LOG)/shellcheck.log shellcheck $(SHELL_SRC)
endef
# Seconds for each target of `make fuzz`.
FUZZ_TIME ?= 20
# Seconds of `make soak`, the seed of what happens, and the way packets take.
SOAK_TIME ?= 1800
SOAK_SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
SOAK_DATAPATH ?= tc
# Which of the distribution's kernels `make kernels` boots, what else (unpacked kernel packages, built trees), and how many
# packets are made for the law.
KERNELS   ?= 6.1 6.12
KERNEL_DIR ?=
LAW_CASES ?= 12000
# Debian's architecture for which `make deb` builds: this machine's, or arm64.
ARCH      ?= $(shell dpkg --print-architecture 2>/dev/null)
# Debian's releases in which `make test-deb` installs the packages.
RELEASES  ?= bookworm
BPF_SRC   := $(wildcard bpf/*.c bpf/*.h bpf/tc/*.h bpf/xdp/*.h lab/pktgen/bpf/*.c lab/pktgen/bpf/*.h lab/src/diolkos_lab/sut/bpf/*/*.c lab/src/diolkos_lab/sut/bpf/*/*.h proofs/*.c tests/e2e/*.bpf.c tests/soak/*.c)

SWITCH_SRC := $(wildcard switch/*.[ch])

.NOTPARALLEL:
.PHONY: reference switch setup-switch image release test-newest help root setup setup-build setup-demo setup-lint setup-fuzz setup-kernels setup-deb build build-tests demo test services kernels fuzz-targets fuzz soak lint lint-compiled format format-check licences tree site install uninstall deb test-deb reproducible clean

help: ## list the targets
	@echo "Diolkos: translation between IPv6 and IPv4, and what it costs. Targets of this Makefile:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building, measuring and testing need and is missing (as root)
	@$(SETUP) run

setup-build:
	@$(SETUP) build

setup-switch:
	@$(SETUP) switch

setup-demo:
	@$(SETUP) demo

setup-lint:
	@$(SETUP) lint

setup-fuzz:
	@$(SETUP) fuzz

setup-kernels:
	@$(SETUP) kernels

setup-deb:
	@$(SETUP) $(if $(filter-out $(shell dpkg --print-architecture 2>/dev/null),$(ARCH)),$(ARCH),deb)

root: # said at once, not after the build
	@$(AS_ROOT) true

build: setup-build ## build bin/diolkos, bin/diolkos-pktgen and bin/diolkos-lab
	@$(STEP) "Building diolkos and diolkos-pktgen" $(LOG)/build.log cargo build --release --locked --package diolkos --package diolkos-cni --package diolkos-pktgen --package diolkos-manual
	@$(TOOLS) target/release/diolkos-manual target/manual
	@$(TOOLS) sh -c 'mkdir -p bin && ln -sfn ../target/release/diolkos ../target/release/diolkos-cni ../target/release/diolkos-pktgen ../packaging/diolkos-lab bin/'

reference: setup-build ## write docs/configuration.md from the types that read the file
	@$(TOOLS) sh -c 'cargo run --quiet --locked --package diolkos-manual -- --reference >target/configuration.md && mv target/configuration.md docs/'

switch: setup-switch ## build bin/diolkos-switch, which runs the P4 program (docs/p4.md); needs libdpdk
	@$(STEP) "Building diolkos-switch" $(LOG)/switch.log $(MAKE) --no-print-directory -C switch OUT=$(CURDIR)/bin

demo: root setup-demo build ## measure CLAT against native forwarding on this machine (as root, some minutes)
	@$(AS_ROOT) bin/diolkos-lab run clat --quick --out results/demo

build-tests: setup-build
	@$(STEP) "Building the programs under test, and the tests" $(LOG)/build-tests.log cargo test --workspace --locked --no-run
	@$(STEP) "Building diolkos-switch" $(LOG)/switch.log $(MAKE) --no-print-directory -C switch OUT=$(PROGRAMS)

test: root setup build-tests ## run every test (as root)
	@$(AS_ROOT) cargo test --workspace --locked --offline --quiet
	@echo "== pytest .ci, tests/kernels"; $(TEST) -m pytest .ci tests/kernels
	@$(TEST) .ci/parallel.py tests/e2e=$(NET_JOBS) "lab/tests:not root=$(LAB_JOBS)" "lab/tests:root=$(LAB_JOBS)" tests/services=$(LAB_JOBS) tests/p4=$(LAB_JOBS) proofs=$(CPUS)

services: root setup build ## test the units under a real systemd (as root, two minutes)
	@$(AS_ROOT) $(PYTHON) .ci/parallel.py tests/services=$(NET_JOBS)

kernels: setup setup-kernels build ## boot KERNELS="6.1 6.12" in guests (sid: Debian's newest), and KERNEL_DIR=FOLDER; load, translate, measure there
	@$(TOOLS) $(PYTHON) tests/kernels/run.py --law-cases $(LAW_CASES) $(KERNELS) $(addprefix --folder ,$(KERNEL_DIR))

fuzz-targets: setup-fuzz
	@$(STEP) "Building the fuzz targets" $(LOG)/build-fuzz.log fuzz/run.sh build

fuzz: fuzz-targets ## look for bytes that break a parser or the translator, FUZZ_TIME=20 s for each target
	@$(TOOLS) fuzz/run.sh $(FUZZ_TIME)

soak: root setup build ## random sessions, reloads, floods and kills through a NAT64 for SOAK_TIME=1800 s (as root)
	@$(AS_ROOT) $(PYTHON) tests/soak/soak.py --time $(SOAK_TIME) --seed $(SOAK_SEED) --datapath $(SOAK_DATAPATH)

lint: setup-lint ## look for mistakes that a machine can see: clippy, ruff, mypy, shellcheck
	@$(STEP) "clippy" $(LOG)/clippy.log cargo clippy --workspace --all-targets --locked -- -D warnings
	$(LINT_REST)

# In .ci/run, clippy is the compiler: what is left to it is what the tests do not build.
lint-compiled: setup-lint
	@[ "$$RUSTC_WORKSPACE_WRAPPER" = clippy-driver ] || { echo "make lint-compiled is for .ci/run; make lint does it all" >&2; exit 2; }
	@$(STEP) "clippy" $(LOG)/clippy.log cargo test --workspace --all-targets --locked --no-run
	$(LINT_REST)

format: setup-lint ## bring all sources into the project's format
	@$(TOOLS) cargo fmt --all
	@$(TOOLS) sh -c '$(RUFF) check --select I --fix lab && $(RUFF) check --select I --fix $(RUFF_REST)'
	@$(TOOLS) sh -c '$(RUFF) format lab && $(RUFF) format $(RUFF_REST)'
	@$(TOOLS) clang-format -i $(BPF_SRC) $(SWITCH_SRC)

format-check: setup-lint ## fail if `make format` would change a file
	@$(STEP) "rustfmt" $(LOG)/rustfmt.log cargo fmt --all --check
	@$(STEP) "ruff format" $(LOG)/ruff-format.log sh -c '$(RUFF) format --check --diff lab && $(RUFF) format --check --diff $(RUFF_REST)'
	@$(STEP) "clang-format" $(LOG)/clang-format.log clang-format --dry-run -Werror $(BPF_SRC) $(SWITCH_SRC)

licences: setup-build ## check licence, oldest Rust and security advisories of every dependency
	@$(STEP) "Fetching the crates of fuzz" $(LOG)/fetch-fuzz.log cargo fetch --locked
	@$(TOOLS) $(PYTHON) .ci/licences.py
	@$(TOOLS) $(PYTHON) .ci/advisories.py
	@$(TOOLS) $(PYTHON) .ci/rust_version.py

tree: setup-build ## check the tree itself: licence lines, no leftovers, no addresses that only work on one machine, links, circles of imports, site
	@$(TOOLS) $(PYTHON) .ci/tree.py
	@$(TOOLS) $(PYTHON) .ci/links.py
	@$(TOOLS) $(PYTHON) .ci/circles.py
	@$(TOOLS) $(PYTHON) .ci/conformance.py
	@$(TOOLS) $(PYTHON) .ci/build_site.py

site: setup-build ## build the site of the pages, target/site/html, which a browser opens from there and searches without a server
	@$(TOOLS) $(PYTHON) .ci/build_site.py

install: ## install the translator and the packet generator, built before, below $(DESTDIR)$(PREFIX)
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin target/release/diolkos target/release/diolkos-pktgen
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/lib/cni target/release/diolkos-cni
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 target/manual/man/*.1
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man8 target/manual/man/*.8
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man5 target/manual/man/*.5
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/bash-completion/completions target/manual/bash/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/zsh/site-functions target/manual/zsh/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d target/manual/fish/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/diolkos LICENSE-APACHE LICENSE-MIT bpf/LICENSE-GPL-2.0 bpf/LICENSE-BSD-2-Clause
	packaging/doc_links.py --install $(DESTDIR)$(PREFIX)
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/lib/diolkos packaging/systemd/after-stop packaging/systemd/option108
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system $(addprefix packaging/systemd/,$(UNITS))
	sed -i 's|/usr/\(bin/diolkos\|lib/diolkos\|share/doc\)|$(PREFIX)/\1|' $(addprefix $(DESTDIR)$(PREFIX)/lib/systemd/system/,$(UNITS))

uninstall: ## remove what `make install` installed
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/diolkos bin/diolkos-pktgen lib/cni/diolkos-cni)
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/share/,man/man1/diolkos.1 man/man1/diolkos-*.1 man/man8/diolkos.8 man/man8/diolkos-*.8 man/man5/diolkos.toml.5 \
		bash-completion/completions/diolkos bash-completion/completions/diolkos-pktgen zsh/site-functions/_diolkos \
		zsh/site-functions/_diolkos-pktgen fish/vendor_completions.d/diolkos.fish fish/vendor_completions.d/diolkos-pktgen.fish)
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/lib/systemd/system/,$(UNITS))
	rm -rf $(addprefix $(DESTDIR)$(PREFIX)/,share/doc/diolkos share/doc/diolkos-pktgen share/varlink/org.diolkos.*.varlink lib/diolkos)

deb: setup-deb ## build Debian packages for ARCH of what git knows here, target/deb/*.deb, and look for mistakes in them
	@$(STEP) "Building the Debian packages" $(LOG)/deb.log packaging/deb.sh $(ARCH)
	@$(STEP) "lintian" $(LOG)/lintian.log sh -c 'lintian --fail-on error,warning target/deb/*_$(ARCH).changes'
	@ls target/deb/*_$(ARCH).deb

image: root deb ## make an OCI image of Debian and the package for ARCH, target/image/*.oci.tar (as root)
	@$(AS_ROOT) packaging/image.sh $(ARCH)

release: root setup-deb ## make packages, images, list of contents, sums and notes of the tagged commit (as root; DEB_MAINTAINER="Name <address>")
	@$(AS_ROOT) packaging/release.sh

test-deb: root setup deb ## install, upgrade and purge the packages in bare installations of RELEASES (as root)
	@$(AS_ROOT) env DIOLKOS_RELEASES="$(RELEASES)" $(PYTHON) -m pytest -q --strict-markers tests/packages

test-newest: root setup setup-deb build ## try diolkos beside the NetworkManager and the systemd of Debian sid (as root)
	@$(AS_ROOT) $(PYTHON) -m pytest -q --strict-markers tests/newest

reproducible: setup-deb ## build the Debian packages of the last commit twice, in two places, and compare their bytes
	@$(STEP) "Building the Debian packages twice" $(LOG)/reproducible.log packaging/reproducible.sh

clean: ## remove everything that was built; results/ stays
	rm -rf target bin .venv
	find . -name .git -prune -o -type d \( -name __pycache__ -o -name .pytest_cache -o -name .ruff_cache -o -name .mypy_cache -o -name .hypothesis \) \
		-prune -exec rm -rf {} +
