# The only entry points a person needs; `make` alone lists them.
# Building runs as you; what needs root (the bench, and the tests that make namespaces) runs through sudo.

.DEFAULT_GOAL := help
.PHONY: help demo test test-beds test-firewall test-others test-alone test-again test-kernels package test-package mutants check bench site prepare clean

# Debian keeps ip, nft and ethtool in sbin, which an ordinary user's PATH leaves out.
export PATH := $(PATH):/usr/sbin:/sbin

# What is built is started through this, so the build itself never needs root. It is started as it was built: `cargo run` of one of the two
# programs would build half of it again, with what that program alone needs of its libraries.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -E )
RELEASE := $${CARGO_TARGET_DIR:-target}/release

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

demo: ## Measure seven firewalls side by side, three to four minutes: a table and a report
	@scripts/prepare
	cargo build --release --locked -p rampart-bench -p rampart
	$(AS_ROOT)$(RELEASE)/rampart-bench run demo

# Runs of tests are no history of anybody.
test: export RAMPART_BENCH_HISTORY := off
test: export FAILED_TESTS := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/failed-tests
test: export RUSTC_WORKSPACE_WRAPPER := $(CURDIR)/scripts/rustc-with-lints
# Crates depend on it, so cargo itself has to see it: else it builds all of them again each time.
test: export CLIPPY_ARGS := -Dwarnings
# What a second build would reuse takes half a minute to write, and more disk than the rest.
test: export CARGO_INCREMENTAL := 0
# Lines in backtraces take a seventh of the time that our own crates compile. A panic says its own line without.
test: export CARGO_PROFILE_DEV_DEBUG := 0
test: ## Everything that CI runs: formatting, lints, documentation, every test, those that need root included
	@scripts/prepare
	@# Nothing that is built needs what only tests need.
	@scripts/prepare test & prepared=$$!; set -x; \
	cargo fmt --all --check && cargo test --workspace --all-targets --locked --no-run && cargo build --workspace --bin xtask --locked --quiet; \
	built=$$?; set +x; wait $$prepared && exit $$built
	$${CARGO_TARGET_DIR:-target}/debug/xtask layout
	@rm -rf "$(FAILED_TESTS)" && mkdir -p "$(FAILED_TESTS)"
	@failed=0; scripts/quick-waits $(MAKE) --no-print-directory --keep-going --jobs=3 test-beds test-firewall test-others || failed=1; \
	$(MAKE) --no-print-directory test-alone || failed=1; \
	[ $$failed = 0 ] || ! ls "$(FAILED_TESTS)"/again/* >/dev/null 2>&1 || ! $(MAKE) --no-print-directory test-again || failed=0; \
	cat "$(FAILED_TESTS)"/* 2>/dev/null; exit $$failed
	cargo test --workspace --locked --doc --quiet

# Three lanes side by side, because most tests wait, one lane alone, and at last what failed in them: see scripts/run-test. What failed is
# said again at the end, for who has but the last lines of a long log.
test-beds test-firewall test-others test-alone test-again: test-%:
	LANE=$* cargo --config "target.'cfg(unix)'.runner=['$(CURDIR)/scripts/run-test']" test \
		--workspace --lib --bins --tests --locked --no-fail-fast

test-kernels: ## The tests that load BPF programs again under Debian's oldest and newest kernel, in an emulated machine
	@scripts/prepare kernels
	scripts/test-kernels

package: ## The Debian packages rampart and rampart-bench, from a release build, in target/debian
	@scripts/prepare package
	scripts/package

test-package: ## Install, start, upgrade, remove and purge the package in a virtual machine of Debian 12; needs root
	@scripts/prepare package
	$(AS_ROOT)scripts/test-package

mutants: ## Make one line of the firewall's data plane wrong at a time, some eighty, and see that tests find out: about half an hour
	@scripts/prepare
	cargo build --locked -p xtask
	$(AS_ROOT)$${CARGO_TARGET_DIR:-target}/debug/xtask mutants

check: ## The fast part of test: formatting, lints, layout, unit tests; needs no root
	@scripts/prepare
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo xtask layout
	cargo test --workspace --lib --bins --locked --no-fail-fast -- --skip needs_root

bench: ## The generator and the sink against themselves: the figures of SPEC.md
	@scripts/prepare
	cargo build --release --locked -p rampart-bench -p rampart
	$(AS_ROOT)$(RELEASE)/rampart-bench calibrate

site: ## The documentation as pages for a browser, in target/site
	@scripts/prepare
	cargo xtask site "$${CARGO_TARGET_DIR:-target}/site"

prepare: ## Install what is missing from the distribution's packages
	@scripts/prepare test

clean: ## Remove what was built
	cargo clean
