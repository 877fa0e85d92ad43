//! Runs the vectors recorded from the code of Kubernetes, OpenShift, HNC and Kueue against the core.
//!
//! Reads `tests/vectors`, or the folder named by `QUOTA_VECTORS` (same file names and format). Prints
//! one line per file, the ids of failing cases, and the total; exits with 1 if a case fails.

mod conformance {
    pub(crate) mod admission;
    pub(crate) mod cluster;
    pub(crate) mod constraints;
    pub(crate) mod deviations;
    pub(crate) mod groups;
    pub(crate) mod quantity;
    pub(crate) mod recalc;
    pub(crate) mod scopes;
    pub(crate) mod usage;
    pub(crate) mod validation;
    pub(crate) mod vectors;
}

use std::process::ExitCode;

use conformance::{
    admission, constraints, groups, quantity, recalc, scopes, usage, validation, vectors,
};

/// Every file of vectors and what runs a case of it.
const FILES: &[(&str, vectors::Run<vectors::Case>)] = &[
    ("quantity", quantity::run),
    ("validation", validation::run),
    ("usage", usage::run),
    ("scopes", scopes::run),
    ("constraints", constraints::run),
    ("admission", admission::run),
    ("recalc", recalc::run),
];

/// The files about groups, in the folder `groups` or beside the others.
const GROUP_FILES: &[(&str, vectors::Run<serde_json::Value>)] = &[
    ("crq_select", groups::select::run),
    ("crq_status", groups::status::run),
    ("hnc_tree", groups::hierarchy::run),
    ("kueue_tree", groups::cohorts::run),
];

fn main() -> ExitCode {
    let mut total = (0, 0);
    for (name, run) in FILES {
        run_file(name, *run, &mut total);
    }
    for (name, run) in GROUP_FILES {
        run_file(name, *run, &mut total);
    }
    let (passed, failed) = total;
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_file<C: vectors::Line>(
    name: &str,
    run: vectors::Run<C>,
    (passed, failed): &mut (usize, usize),
) {
    let Some(cases) = vectors::read(name) else {
        println!("{name}: skipped, there is no such file");
        return;
    };
    let result = vectors::run_file(&cases, run);
    println!(
        "{name}: {} passed, {} failed",
        result.passed,
        result.failures.len()
    );
    for (id, reason) in &result.failures {
        println!("  {id}: {reason}");
    }
    *passed += result.passed;
    *failed += result.failures.len();
}
