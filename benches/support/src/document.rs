//! Writing results into a document whose other parts people write.

use std::{fs, path::PathBuf};

use super::setting;

/// Replaces what stands between the two marks of a section.
pub fn replace(section: &str, text: &str) {
    let path = setting("BENCH_DOCUMENT", PathBuf::from("benches/RESULTS.md"));
    let old =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (begin, end) = (format!("<!-- begin {section} -->"), format!("<!-- end {section} -->"));
    let replaced = old.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some(format!("{before}{begin}\n{}\n{end}{after}", text.trim()))
    });
    let new = replaced.unwrap_or_else(|| panic!("{} has no marks {begin}", path.display()));
    fs::write(&path, new).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// A Markdown table.
pub struct Table {
    text: String,
}

impl Table {
    /// A table with these titles and no rows.
    pub fn new(titles: &[&str]) -> Self {
        let text = format!("| {} |\n|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
        Self { text }
    }

    /// Adds a row.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.text.push('|');
        for cell in cells {
            self.text.push(' ');
            self.text.push_str(cell.as_ref());
            self.text.push_str(" |");
        }
        self.text.push('\n');
    }

    /// The table, as text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A whole number with its thousands apart.
pub fn whole(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Microseconds, as milliseconds.
pub fn ms(us: f64) -> String {
    format!("{:.2}", us / 1000.0)
}

/// A ratio.
pub fn ratio(ours: f64, theirs: f64) -> String {
    if theirs > 0.0 { format!("{:.2}", ours / theirs) } else { "-".to_owned() }
}

/// Whether a target was met.
pub const fn met(is_met: bool) -> &'static str {
    if is_met { "yes" } else { "**no**" }
}
