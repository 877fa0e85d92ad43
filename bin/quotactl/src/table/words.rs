//! The width of words in a cell, and the places where they can be broken.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::terminal_text::blank_controls;

/// A measure of a text, in columns of the terminal.
pub(super) type Measure = fn(&str) -> u16;

/// The number of columns of the terminal that a text takes.
pub(super) fn width_of(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

pub(super) fn longest_word(text: &str) -> u16 {
    text.split(' ').map(width_of).max().unwrap_or(0)
}

pub(super) fn longest_part(text: &str) -> u16 {
    let words = text.split(' ').flat_map(parts);
    words.map(width_of).max().unwrap_or(0)
}

/// The parts into which a word can be broken: a name ends with the separator to the next one. Times and amounts are one
/// part.
fn parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for (at, mark) in word.match_indices(['/', '.', '-', '=', ':']) {
        let next = at + mark.len();
        let is_name = word[next..].starts_with(|c: char| c.is_ascii_alphabetic());
        if is_name || mark == "=" && next < word.len() {
            parts.push(&word[begin..next]);
            begin = next;
        }
    }
    parts.push(&word[begin..]);
    parts
}

/// Breaks the words of a cell that are wider than its column.
pub(super) fn break_names(cell: &mut Cow<'_, str>, width: u16) {
    if longest_word(cell) <= width {
        return;
    }
    let mut broken = String::with_capacity(cell.len() + 4);
    for (number, word) in cell.split(' ').enumerate() {
        if number > 0 {
            broken.push(' ');
        }
        if width_of(word) <= width {
            broken.push_str(word);
            continue;
        }
        let mut line = 0;
        for part in parts(word) {
            let wide = width_of(part);
            if line > 0 && line + wide > width {
                broken.push('\n');
                line = 0;
            }
            for letter in part.chars() {
                let wide = u16::try_from(letter.width().unwrap_or(0)).unwrap_or(0);
                if line > 0 && line + wide > width {
                    broken.push('\n');
                    line = 0;
                }
                broken.push(letter);
                line += wide;
            }
        }
    }
    *cell = Cow::Owned(broken);
}

/// The text of a cell: `<none>` for an empty one, so that programs can split rows.
pub(super) fn to_cell(text: &str) -> String {
    match text {
        "" => "<none>".to_owned(),
        text => blank_controls(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parted_where_they_are_joined_and_times_and_amounts_are_not() {
        for (word, expected) in [
            (
                "2026-11-23T10:50:35.956264Z",
                &["2026-11-23T10:50:35.956264Z"][..],
            ),
            ("expiration=2026-11-23", &["expiration=", "2026-11-23"]),
            ("10.5Gi/2", &["10.5Gi/2"]),
            ("a-b:", &["a-", "b:"]),
        ] {
            assert_eq!(parts(word), expected);
        }
    }
}
