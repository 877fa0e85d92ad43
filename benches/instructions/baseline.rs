//! Counting, and what was counted before.

use std::{
    collections::BTreeMap,
    env, fs,
    process::{Command, ExitCode, Stdio},
};

use super::{CASE, cases};

const BASELINE: &str = "benches/instructions.txt";

/// Counts may differ by so much: where the allocator finds room depends on the environment.
const TOLERANCE: f64 = 0.05;

/// Counts all cases, and compares or replaces the baseline.
pub(super) fn check() -> ExitCode {
    let counts: Vec<_> =
        cases::ALL.iter().map(|(name, times)| (*name, count(name) / times)).collect();
    let compiler = compiler();
    if env::var_os("UPDATE_BASELINE").is_some() {
        fs::write(BASELINE, text(&compiler, &counts)).expect("the baseline can be written");
        println!("{BASELINE} is written anew");
        return ExitCode::SUCCESS;
    }
    let baseline = fs::read_to_string(BASELINE).expect("there is a baseline");
    if baseline.lines().next() != Some(&*header(&compiler)) {
        println!(
            "the baseline is of another compiler: UPDATE_BASELINE=1 writes it anew\n{baseline}"
        );
        println!("now:\n{}", text(&compiler, &counts));
        return ExitCode::FAILURE;
    }
    let baseline = parse(&baseline);
    let judge = |(name, count): &(&str, u64)| {
        let before = baseline.get(*name).copied().unwrap_or(0);
        let change = *count as f64 / before as f64 - 1.0;
        println!("{name}: {count} instructions, {:+.1} %", change * 100.0);
        change <= TOLERANCE
    };
    // All are shown, also behind the first that is too many.
    let good = counts.iter().map(judge).filter(|good| *good).count();
    if good == counts.len() {
        return ExitCode::SUCCESS;
    }
    println!("more than {:.0} % more than before", TOLERANCE * 100.0);
    ExitCode::FAILURE
}

/// Instructions inside `measured`, in a run of one case.
fn count(name: &str) -> u64 {
    let directory = tempfile::tempdir().expect("a directory for the counts");
    let out = directory.path().join("counts");
    let mut flag = std::ffi::OsString::from("--callgrind-out-file=");
    flag.push(&out);
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*instructions*measured*"])
        .arg(flag)
        .arg(env::current_exe().expect("this program has a name"))
        .env_clear()
        .env(CASE, name)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("valgrind is installed");
    assert!(status.success(), "{name}: {status}");
    let text = fs::read_to_string(out).expect("callgrind has counted");
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = total.and_then(|total| total.trim().parse().ok());
    let total = total.unwrap_or(0);
    assert!(total > 0, "{name}: nothing was counted");
    total
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    let output = output.expect("rustc is installed");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn header(compiler: &str) -> String {
    format!("# instructions each, by {compiler}, {}", env::consts::ARCH)
}

fn text(compiler: &str, counts: &[(&str, u64)]) -> String {
    let mut text = header(compiler);
    text.push('\n');
    for (name, count) in counts {
        text.push_str(&format!("{count} {name}\n"));
    }
    text
}

fn parse(text: &str) -> BTreeMap<&str, u64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(count, name)| Some((name, count.parse().ok()?)))
        .collect()
}
