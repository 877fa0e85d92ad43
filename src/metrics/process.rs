//! `process_*`, with the names of all Prometheus client libraries, from `/proc/self`.

use std::fs;

use quota_service::metrics::Metric;

use super::{
    table,
    text::{head, sample},
};

/// Linux reports times in hundredths of a second on every architecture (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Writes the values that can be read, and leaves out the others.
pub(super) fn render(text: &mut String) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses and may hold anything.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect())
        .unwrap_or_default();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<f64>().ok());
    let cpu = field(14).zip(field(15)).map(|(user, system)| (user + system) / TICKS_PER_SECOND);
    let started = field(22).zip(boot_time()).map(|(ticks, boot)| boot + ticks / TICKS_PER_SECOND);
    let numbers = [
        (&table::PROCESS_CPU, cpu),
        (&table::PROCESS_START_TIME, started),
        (&table::PROCESS_THREADS, field(20)),
        (&table::PROCESS_VIRTUAL_MEMORY, field(23)),
        (&table::PROCESS_RESIDENT_MEMORY, resident_memory()),
        (&table::PROCESS_OPEN_FDS, open_fds()),
        (&table::PROCESS_MAX_FDS, max_fds()),
    ];
    for (metric, number) in numbers {
        write(text, metric, number);
    }
}

fn write(text: &mut String, metric: &Metric, number: Option<f64>) {
    if let Some(number) = number {
        head(text, metric);
        sample(text, metric, &[], number);
    }
}

fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn resident_memory() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let number: f64 = kibibytes.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024.0)
}

fn open_fds() -> Option<f64> {
    let count = u32::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok()?;
    // Without the descriptor that lists the directory.
    Some(f64::from(count.saturating_sub(1)))
}

fn max_fds() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
