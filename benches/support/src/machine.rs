//! What was measured on.

use std::{fs, process::Command};

/// A line that says when and on what, and with which profile of cargo the programs were built.
pub fn description(profile: &str) -> String {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib / 1024 / 1024);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{date}, {processors} processors ({model}), {memory} GiB, Linux {}, {}, profile {profile}, load generator on the same \
         machine",
        kernel.trim(),
        rustc(),
        date = now(),
    )
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// The compiler's version.
pub fn rustc() -> String {
    said("rustc", &["--version"]).unwrap_or_else(|| "rustc unknown".to_owned())
}

/// The first line that a program prints; none if it is not there.
pub fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}
