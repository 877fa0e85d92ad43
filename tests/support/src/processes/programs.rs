//! Programs of other crates of the workspace.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// `quotad`, which Cargo builds beside the tests and benches of its package.
pub fn quotad() -> PathBuf {
    // This program is in target/PROFILE/deps, or target/TRIPLE/PROFILE/deps.
    let own = std::env::current_exe().expect("a running program has a file");
    let profile = own.parent().and_then(Path::parent);
    profile.expect("Cargo built it").join("quotad")
}

/// `quotactl`, built as this program is. Cargo builds only the programs of the crate that is tested.
pub fn quotactl() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    built("quotactl", &BUILT)
}

/// `quota-load`, the load generator, built as this program is.
pub fn quota_load() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    built("quota-load", &BUILT)
}

fn built(program: &str, once: &OnceLock<PathBuf>) -> PathBuf {
    let path = once.get_or_init(|| {
        build(&[program]);
        directory().join(program)
    });
    path.clone()
}

/// Where built programs are: target/PROFILE, or target/TRIPLE/PROFILE.
pub fn directory() -> PathBuf {
    let quotad = quotad();
    quotad.parent().map(PathBuf::from).unwrap_or_default()
}

/// The profile that this program was built with.
fn profile() -> String {
    let directory = directory();
    let name = directory.file_name().map(|name| name.to_string_lossy());
    match name.as_deref() {
        None | Some("debug") => "dev".to_owned(),
        Some(profile) => profile.to_owned(),
    }
}

/// Builds these programs, with the profile of this one. In tests the examples too: with them, features are those of
/// `cargo test --workspace`, which has built nearly all of it.
#[expect(clippy::panic, reason = "nothing can be tested without it")]
pub fn build(programs: &[&str]) {
    let profile = profile();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--profile", &profile]);
    for program in programs {
        cargo.args(["--bin", program]);
        if profile != "dev" {
            // The load generator is one of the programs of its package.
            cargo.args([
                "--package",
                if *program == "quota-load" { "quota-bench" } else { program },
            ]);
        }
    }
    if profile == "dev" {
        cargo.args(["--workspace", "--examples"]);
    }
    cargo.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")]);
    // The environment of a test is that of its package. Cargo would build anew whatever has a build script that reads it.
    for (name, _) in std::env::vars_os() {
        let is_of_package = |name: &str| {
            name == "OUT_DIR"
                || name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
        };
        if name.to_str().is_some_and(is_of_package) {
            cargo.env_remove(name);
        }
    }
    cargo.stdin(Stdio::null());
    match cargo.status() {
        Ok(status) if status.success() => {}
        failed => panic!("{programs:?} are not built: {failed:?}"),
    }
}

/// Has `quotactl generate certs` make certificates for a host, in this directory.
pub fn certificates(directory: &Path, host: &str) {
    let mut generate = Command::new(quotactl());
    generate.args(["generate", "certs", "--force", "--host", host, "--dir"]);
    run(generate.arg(directory));
}

/// Has `quotactl token create` add a token to this file, and returns it.
pub fn create_token(file: &Path, arguments: &str) -> String {
    let mut create = Command::new(quotactl());
    create.args(["token", "create", "--file"]).arg(file);
    let said = run(create.args(arguments.split(' ')));
    said.trim_end().to_owned()
}

/// What a program says, which has to succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
