//! The terminal, if standard output is one.

use std::{
    env,
    io::{self, IsTerminal as _},
};

use clap::ValueEnum;
use rustix::termios::tcgetwinsize;

/// The use of colours in tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Whether standard output has colours. <https://no-color.org>: NO_COLOR counts if it is not empty.
    pub(super) fn is_on(self) -> bool {
        let refused = || env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = || env::var_os("TERM").is_some_and(|term| term == "dumb");
        match self {
            Self::Auto => io::stdout().is_terminal() && !refused() && !dumb(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// The width of the terminal; none if standard output is no terminal, or its width is unknown.
pub(super) fn width() -> Option<u16> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let width = tcgetwinsize(stdout).ok()?.ws_col;
    (width > 0).then_some(width)
}
