//! The page in a real browser, against the real daemon. What is done and looked at is in Python (`flows.py`), since
//! that is where Playwright and axe are.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use quota_testkit::programs;

use std::{path::Path, path::PathBuf, process::Command};

#[test]
fn people_see_what_the_ledger_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("QUOTAD_UI_PYTHON")
        .map_or_else(|| root.join("target/ui/bin/python"), PathBuf::from);
    assert!(
        python.exists(),
        "{} is missing: tests/run makes it, or QUOTAD_UI_PYTHON names a Python with playwright and \
         axe-playwright-python",
        python.display()
    );
    let status = Command::new(python)
        .arg("-B")
        .arg(root.join("tests/ui/flows.py"))
        .env("QUOTAD", env!("CARGO_BIN_EXE_quotad"))
        .env("QUOTACTL", crate::programs::quotactl())
        .env("SCREENSHOTS", Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui"))
        .status()
        .unwrap();
    assert!(status.success());
}
