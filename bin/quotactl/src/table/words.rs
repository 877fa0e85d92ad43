//! The text of a cell, and its width.

use unicode_width::UnicodeWidthStr as _;

use crate::terminal_text::blank_controls;

/// The number of columns of the terminal that a text takes.
pub(super) fn width_of(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

/// The text of a cell: `<none>` for an empty one, so that programs can split rows.
pub(super) fn to_cell(text: &str) -> String {
    match text {
        "" => "<none>".to_owned(),
        text => blank_controls(text),
    }
}
