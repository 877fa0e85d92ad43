//! The progress of long operations: on standard error, if that is a terminal.

use std::{
    fs,
    io::Read,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::note;

/// The interval at which a count without a total is drawn, in milliseconds.
const TICK_MILLISECONDS: u64 = 200;

/// Work that is done before then shows no bar.
const QUICK: Duration = Duration::from_secs(1);

/// A bar, or a count if the total is unknown.
pub(crate) struct Progress {
    bar: ProgressBar,
    before: u64,
    /// Whether the bar is not drawn yet.
    is_hidden: AtomicBool,
}

impl Progress {
    /// A bar over the entries `first..=last`.
    pub(crate) fn over(what: &'static str, first: u64, last: u64) -> Self {
        let before = first.saturating_sub(1);
        let template = "{msg} {wide_bar} {human_pos}/{human_len} entries, {per_sec}, {eta} left";
        let bar = bar(what, template);
        bar.set_length(last.saturating_sub(before));
        Self { bar, before, is_hidden: AtomicBool::new(false) }
    }

    /// A bar over the entries `first..=last`, which is drawn only if that takes longer than a second.
    pub(crate) fn slowly_over(what: &'static str, first: u64, last: u64) -> Self {
        let progress = Self::over(what, first, last);
        progress.bar.set_draw_target(ProgressDrawTarget::hidden());
        progress.is_hidden.store(true, Ordering::Relaxed);
        progress
    }

    /// A bar over bytes; [`Progress::set`] sets the total.
    pub(crate) fn of_bytes(what: &'static str) -> Self {
        let template = "{msg} {wide_bar} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
        Self { bar: bar(what, template), before: 0, is_hidden: AtomicBool::new(false) }
    }

    /// A bar over the bytes of a file; of anything else (a pipe), a count.
    pub(crate) fn over_file(what: &'static str, file: &Path) -> Self {
        let metadata = fs::metadata(file).ok().filter(fs::Metadata::is_file);
        match metadata {
            Some(metadata) => {
                let progress = Self::of_bytes(what);
                progress.bar.set_length(metadata.len());
                progress
            }
            None => Self::counting_bytes(what),
        }
    }

    /// A count of bytes with an unknown total.
    pub(crate) fn counting_bytes(what: &'static str) -> Self {
        let bar = bar(what, "{msg} {spinner} {bytes}, {bytes_per_sec}");
        bar.enable_steady_tick(Duration::from_millis(TICK_MILLISECONDS));
        Self { bar, before: 0, is_hidden: AtomicBool::new(false) }
    }

    /// The same input; bytes that are read from it count as progress.
    pub(crate) fn read<R: Read>(&self, input: R) -> impl Read + use<R> {
        self.bar.wrap_read(input)
    }

    /// Sets the progress to `done` of `total`.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Sets the progress: all entries up to this one have been read.
    pub(crate) fn at(&self, sequence: u64) {
        // Asking the clock for each entry would cost more than the entry.
        if sequence.is_multiple_of(1024)
            && self.is_hidden.load(Ordering::Relaxed)
            && self.bar.elapsed() > QUICK
        {
            self.is_hidden.store(false, Ordering::Relaxed);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(sequence.saturating_sub(self.before));
    }

    /// Prints a note to standard error, above the bar.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        self.bar.suspend(|| note(text));
    }
}

fn bar(what: &'static str, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
