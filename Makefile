# `make verify` is what has to pass before a change is merged.

.PHONY: verify fmt fmt-check lint test test-more sim soak doc deny machete advisories build dist static image image-start packages sbom chart release run cluster bench bench-scale bench-cluster bench-bridge bench-instructions apiserver apiserver-race fuzz docs-tables manifests docs

verify: fmt-check lint test-more doc deny machete image-start

fmt:
	cargo fmt --all

fmt-check:
	cargo fmt --all --check

lint:
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	cargo clippy -p quotad --locked -- --deny warnings # as built first: without the features that tests have

# Installs what the tests start, then runs them all, of the longest ones a sample.
test:
	tests/run

# The same, and the longest ones whole.
test-more:
	QUOTAD_TESTS=whole tests/run

# The simulation alone: QUOTAD_SIM_SEEDS=1000000 make sim
sim:
	tests/simulate --nocapture

# The same faults as in the tests, all of them and for hours, with one server and with a cluster of them at the same
# time: SOAK_HOURS=8 make soak. Faults of three daemons and their servers: about 1,000 an hour.
SOAK_HOURS ?= 4
NODES_FAULTS ?= 2000
soak:
	QUOTAD_FAULTS=all cargo test --locked --test faults -- --nocapture
	QUOTAD_LINEAR_OPERATIONS=20000 cargo test --locked --test linear -- --nocapture
	QUOTAD_NODES_FAULTS=$(NODES_FAULTS) cargo test --locked --test cluster nothing -- --nocapture
	QUOTAD_SOAK_HOURS=$(SOAK_HOURS) cargo test --locked --test torture nothing -- --nocapture

# Everything behind a real kube-apiserver, which is killed like all the rest. Needs KUBEBUILDER_ASSETS, a directory with
# etcd, kube-apiserver and kube-controller-manager, and kubectl and openssl; nothing is run without it.
apiserver:
	cargo build --locked --workspace --bins
	tests/apiserver/run

# Creates behind it, with Kubernetes' own quota plugin and with quotad, in turn. Of a release build.
apiserver-race:
	cargo build --locked --release --workspace --bins
	PROGRAMS=target/release tests/apiserver/race

doc:
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --locked

# Needs mdbook. Writes target/docs.
docs:
	command -v mdbook >/dev/null || cargo install --locked mdbook
	docs/build

deny:
	cargo deny --locked check bans licenses sources

# Dependencies that nothing uses.
machete:
	command -v cargo-machete >/dev/null || cargo install --quiet --locked cargo-machete
	cargo machete

# Needs the advisory database.
advisories:
	cargo deny --locked check advisories

build:
	cargo build --release --locked

# What packages and images hold: the programs, with what takes too long for a first build.
SHIPPED := quotad quotactl quota-bridge
BUILD_SHIPPED := cargo build --profile dist --locked $(addprefix -p ,$(SHIPPED)) --bins --features quotad/otlp,quotad/nkeys
dist:
	$(BUILD_SHIPPED)

# The same as static programs, which run on any Linux of this machine's kind. Needs the static C library, glibc 2.34 or
# newer, which Debian has in libc6-dev: it finds names without loading anything. The target is named, so that what only
# builds the programs is not static.
STATIC := $(shell uname -m)-unknown-linux-gnu
static:
	RUSTFLAGS="-C target-feature=+crt-static" $(BUILD_SHIPPED) --target $(STATIC)
	cd target/$(STATIC)/dist && sha256sum $(SHIPPED) >SHA256SUMS

# The OCI image, in target/image.
image: static
	rm -rf target/image
	deploy/image/build target/image $(addprefix target/$(STATIC)/dist/,$(SHIPPED))

# Its programs, started from its root alone, which only root can.
image-start: image
	IMAGE=$(CURDIR)/target/image tests/deploy/run -k Started

# What the programs are made of, as CycloneDX, in target/sbom.json.
sbom:
	deploy/sbom $(STATIC) >target/sbom.json

# The Debian packages, in target/debian.
packages: static
	deploy/debian/build target/$(STATIC)/dist target/debian

# The chart as Helm packages it, in target/chart. The same files make the same archive.
VERSION := $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
chart:
	rm -rf target/chart && mkdir -p target/chart
	tar --sort=name --dereference --exclude=ci --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime=@0 -C deploy/helm -c quota-ledger | \
		gzip --best --no-name >target/chart/quota-ledger-$(VERSION).tgz

# What a release consists of, with checksums, in target/release-files.
RELEASE := target/release-files
release: packages image sbom chart
	rm -rf $(RELEASE) && mkdir -p $(RELEASE)
	tar -czf $(RELEASE)/quota-ledger-$(VERSION)-$(STATIC).tar.gz -C target/$(STATIC)/dist $(SHIPPED)
	tar -cf $(RELEASE)/quota-ledger-$(VERSION)-$(STATIC)-image.tar -C target/image .
	cp target/sbom.json $(RELEASE)/quota-ledger-$(VERSION)-$(STATIC).cdx.json
	cp target/debian/*.deb target/chart/*.tgz $(RELEASE)
	cd $(RELEASE) && sha256sum * >SHA256SUMS-$(STATIC)

run:
	cargo run --release --locked

# Three nats-servers and three daemons on loopback, until Ctrl-C. QUOTAD_NATS_SERVER: a nats-server of 2.14.4 or newer.
cluster:
	cargo build --release --locked
	deploy/cluster/try

# All that is measured is built as packages are. Needs redis-server and postgresql, as Debian packages them. Writes the
# tables of benches/RESULTS.md.
bench:
	cargo bench --locked --profile dist --bench core --bench journal --bench intake
	cargo bench --locked --profile dist --bench peers

# Needs nats-server, 15 GiB of disk and 5 GiB of memory; BENCH_SCALE=0.1 does with a tenth.
bench-scale:
	cargo bench --locked --profile dist --bench scale

# Three nodes beside one, and beside three etcds if etcd is there. Needs a nats-server of 2.14.4 or newer, which
# QUOTAD_NATS_SERVER names. Writes the table of benches/RESULTS.md.
bench-cluster:
	cargo bench --locked --profile dist --bench cluster

# Needs nats-server, and 2 GiB of memory; BENCH_SCALE=0.1 does with a tenth.
bench-bridge:
	cargo build --locked --profile dist --bin quotad
	cargo bench --locked --profile dist -p quota-bridge --bench bridge

# Needs valgrind. UPDATE_BASELINE=1 takes the counts for the new baseline.
bench-instructions:
	cargo bench --locked --profile dist --config profile.dist.strip=false --bench instructions

# Each fuzz target for FUZZ_SECONDS (default 30). Needs a nightly toolchain and cargo-fuzz.
fuzz:
	fuzz/run

# Writes the tables in docs, and docs/openapi.json, anew after a change of a metric, a route or a schema.
docs-tables:
	UPDATE_DOCS=1 cargo test --locked --workspace --lib document

# Writes deploy/manifests anew after a change of the chart.
manifests:
	UPDATE_MANIFESTS=1 tests/deploy/run -k test_they_are_the_rendered_chart
