//! What a program says of its own build: the version with the commit, the commit alone, and the profile. `quotactl` and
//! `quota-bridge` use it too.

use std::{env, path::Path, process::Command};

fn main() {
    let profile = profile();
    let commit = commit(&profile);
    let version = match &commit {
        Some(commit) => format!("{} (commit {commit})", variable("CARGO_PKG_VERSION")),
        None => variable("CARGO_PKG_VERSION"),
    };
    let commit = commit.as_deref().unwrap_or("unknown");
    println!("cargo::rustc-env=BUILD_VERSION={version}");
    println!("cargo::rustc-env=BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=BUILD_PROFILE={profile}");
}

/// The profile that cargo builds with: the directory under `target` that it builds in.
fn profile() -> String {
    let out = variable("OUT_DIR");
    let directory = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    directory.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// `BUILD_COMMIT`, for builds without a repository, or what is checked out. A debug build has none: it would have to
/// be built again for every commit.
fn commit(profile: &str) -> Option<String> {
    println!("cargo::rerun-if-env-changed=BUILD_COMMIT");
    if let Some(commit) = env::var("BUILD_COMMIT").ok().filter(|text| !text.is_empty()) {
        return Some(commit);
    }
    if profile == "debug"
        || !git(&["ls-files", "--error-unmatch", "Cargo.toml"])?.ends_with(".toml")
    {
        return None;
    }
    // Every commit and checkout adds a line to it.
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// A variable that cargo sets.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
