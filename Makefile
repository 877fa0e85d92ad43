# `make verify` is what has to pass before a change is merged.

.PHONY: verify fmt fmt-check lint test doc deny build run bench metrics-doc

verify: fmt-check lint test doc deny

fmt:
	cargo fmt --all

fmt-check:
	cargo fmt --all --check

lint:
	cargo clippy --workspace --all-targets --locked -- --deny warnings

test:
	cargo test --workspace --locked

doc:
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --locked

deny:
	cargo deny --locked check

build:
	cargo build --release --locked

run:
	cargo run --release --locked

bench:
	cargo bench --workspace --locked

# Writes docs/metrics.md anew after a change of src/metrics/table.rs.
metrics-doc:
	UPDATE_DOCS=1 cargo test --locked --lib metrics
