//! Programs of other crates of the workspace.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    sync::OnceLock,
};

/// `quotactl`, built as this program is. Cargo builds only the programs of the crate that is tested, so that this builds
/// it.
pub(crate) fn quotactl() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

#[expect(clippy::panic, reason = "nothing can be tested without it")]
fn build() -> PathBuf {
    // In target/PROFILE, or target/TRIPLE/PROFILE.
    let quotad = PathBuf::from(env!("CARGO_BIN_EXE_quotad"));
    let directory = quotad.parent().map(PathBuf::from).unwrap_or_default();
    let name = directory.file_name().map(|name| name.to_string_lossy());
    let profile = match name.as_deref() {
        None | Some("debug") => "dev",
        Some(profile) => profile,
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--quiet",
        "--bin",
        "quotactl",
        "--profile",
        profile,
    ]);
    cargo.args([
        "--manifest-path",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
    ]);
    cargo.stdin(Stdio::null());
    match cargo.status() {
        Ok(status) if status.success() => directory.join("quotactl"),
        failed => panic!("quotactl is not built: {failed:?}"),
    }
}
