//! How far a long reading has come, for those who watch.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error, if that is a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
    before: u64,
}

impl Progress {
    /// A bar over the entries `first..=last`.
    pub(super) fn over(what: &'static str, first: u64, last: u64) -> Self {
        let before = first.saturating_sub(1);
        let template = "{msg} {wide_bar} {human_pos}/{human_len} entries, {per_sec}, {eta} left";
        let bar = bar(what, template);
        bar.set_length(last.saturating_sub(before));
        Self { bar, before }
    }

    /// A bar over bytes; how many there are comes with [`Progress::of`].
    pub(super) fn of_bytes(what: &'static str) -> Self {
        let template = "{msg} {wide_bar} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
        Self {
            bar: bar(what, template),
            before: 0,
        }
    }

    /// So much of `total` is done.
    pub(super) fn of(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Everything up to this entry has been read.
    pub(super) fn at(&self, sequence: u64) {
        self.bar.set_position(sequence.saturating_sub(self.before));
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
