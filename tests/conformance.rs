//! Runs the vectors recorded from Kubernetes' own code against the core.
//!
//! Reads `tests/vectors`, or the folder named by `QUOTA_VECTORS` (same file names and format). Prints
//! one line per file, the ids of failing cases, and the total; exits with 1 if a case fails.

mod conformance {
    pub(crate) mod admission;
    pub(crate) mod cluster;
    pub(crate) mod constraints;
    pub(crate) mod deviations;
    pub(crate) mod quantity;
    pub(crate) mod recalc;
    pub(crate) mod scopes;
    pub(crate) mod usage;
    pub(crate) mod validation;
    pub(crate) mod vectors;
}

use std::process::ExitCode;

use conformance::{admission, constraints, quantity, recalc, scopes, usage, validation, vectors};

/// Every file of vectors and what runs a case of it.
const FILES: &[(&str, vectors::Run)] = &[
    ("quantity", quantity::run),
    ("validation", validation::run),
    ("usage", usage::run),
    ("scopes", scopes::run),
    ("constraints", constraints::run),
    ("admission", admission::run),
    ("recalc", recalc::run),
];

fn main() -> ExitCode {
    let (mut passed, mut failed) = (0, 0);
    for (name, run) in FILES {
        let Some(cases) = vectors::read(name) else {
            println!("{name}: skipped, there is no such file");
            continue;
        };
        let result = vectors::run_file(&cases, *run);
        println!(
            "{name}: {} passed, {} failed",
            result.passed,
            result.failures.len()
        );
        for (id, reason) in &result.failures {
            println!("  {id}: {reason}");
        }
        passed += result.passed;
        failed += result.failures.len();
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
