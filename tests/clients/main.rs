//! The daemon as its clients see it. One of them is generated from the API's description, and goes through the story of
//! the README (`story.py`); another sends all that the description allows, and what it forbids (`described.py`). They are in
//! Python, since that is where what makes them is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use quota_testkit as support;

mod hook;
mod languages;
mod transport;
mod typed;

/// The example that users copy.
#[path = "../../client/examples/admission_hook.rs"]
#[expect(dead_code, reason = "its `main` reads the environment, and is not called here")]
mod admission_hook;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The Python that tests/run has installed, with what the scripts import.
fn python() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("QUOTAD_CLIENTS_PYTHON")
        .map_or_else(|| root.join("target/clients/bin/python"), PathBuf::from);
    assert!(
        python.exists(),
        "{} is missing: tests/run makes it, or QUOTAD_CLIENTS_PYTHON names a Python with openapi-python-client and \
         schemathesis",
        python.display()
    );
    python
}

/// Runs a script with it.
fn run(script: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let status = Command::new(python())
        .arg("-B")
        .arg(root.join("tests/clients").join(script))
        .env("QUOTAD", env!("CARGO_BIN_EXE_quotad"))
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn a_generated_client_tells_the_story() {
    run("story.py");
}

#[test]
fn whatever_is_sent_the_answer_is_as_described() {
    run("described.py");
}
