//! Runs the vectors recorded from the code of Kubernetes, OpenShift, HNC and Kueue against the core.
//!
//! Reads `tests/vectors`, or the folder named by `QUOTA_VECTORS` (same file names and format, of which some may be
//! missing). Prints one line per file, the ids of failing cases, and the total; exits with 1 if a case fails, or if our
//! own vectors are not as many as the documentation says.

mod conformance {
    pub(crate) mod admission;
    pub(crate) mod cluster;
    pub(crate) mod constraints;
    pub(crate) mod deviations;
    pub(crate) mod groups;
    pub(crate) mod quantity;
    pub(crate) mod recalc;
    pub(crate) mod recount;
    pub(crate) mod scopes;
    pub(crate) mod usage;
    pub(crate) mod validation;
    pub(crate) mod vectors;
}

use std::{fs, path::Path, process::ExitCode};

use conformance::{
    admission, constraints, groups, quantity, recalc, scopes, usage, validation, vectors,
};

/// How many vectors the files of [`FILES`] have in all, as the documentation says.
const VECTORS: &str = "2,451";

/// Where the documentation says so.
const PAGES: [&str; 2] = ["README.md", "docs/semantics.md"];

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
    let advertised = vectors::are_ours().then(|| check_number(total.0 + total.1));
    for (name, run) in GROUP_FILES {
        run_file(name, *run, &mut total);
    }
    let (passed, failed) = total;
    println!("{passed} passed, {failed} failed");
    if let Some(Err(complaint)) = &advertised {
        println!("{complaint}");
    }
    if failed == 0 && passed > 0 && !matches!(advertised, Some(Err(_))) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Fails unless there are as many vectors as the documentation says.
fn check_number(found: usize) -> Result<(), String> {
    if VECTORS.replace(',', "") != found.to_string() {
        return Err(format!("there are {found} vectors, expected {VECTORS}"));
    }
    for page in PAGES {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page));
        let text = text.map_err(|error| format!("{page}: {error}"))?;
        if !text.contains(VECTORS) {
            return Err(format!("{page} does not speak of {VECTORS} vectors"));
        }
    }
    Ok(())
}

fn run_file<C: vectors::Line>(
    name: &str,
    run: vectors::Run<C>,
    (passed, failed): &mut (usize, usize),
) {
    let Some(cases) = vectors::read(name) else {
        // Ours are all there; another folder may have some of the files only.
        let is_missed = vectors::are_ours();
        println!("{name}: {}, there is no such file", if is_missed { "failed" } else { "skipped" });
        *failed += usize::from(is_missed);
        return;
    };
    let result = vectors::run_file(&cases, run);
    println!("{name}: {} passed, {} failed", result.passed, result.failures.len());
    for (id, reason) in &result.failures {
        println!("  {id}: {reason}");
    }
    *passed += result.passed;
    *failed += result.failures.len();
}
