//! The documentation of each key, read from the shipped file, its only source.

use super::Schema;

/// A key and the comment above it.
pub struct Entry {
    /// The dotted key, as in `nats.url`.
    pub key: String,
    /// The documentation.
    pub comment: String,
}

impl Entry {
    /// The section; empty for a key above all sections.
    pub(super) fn section(&self) -> &str {
        self.key.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// The key within its section.
    pub(super) fn name(&self) -> &str {
        self.key
            .rsplit_once('.')
            .map_or(self.key.as_str(), |(_, name)| name)
    }
}

/// Every key in the order of the file.
#[must_use]
pub fn entries<S: Schema>() -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut section = String::new();
    let mut comment = String::new();
    for line in S::SHIPPED.lines() {
        if let Some(text) = line.strip_prefix('#') {
            if !comment.is_empty() {
                comment.push(' ');
            }
            comment.push_str(text.trim());
        } else if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section = format!("{name}.");
            comment.clear();
        } else if let Some((name, _)) = line.split_once(" = ") {
            let key = format!("{section}{name}");
            entries.push(Entry {
                key,
                comment: std::mem::take(&mut comment),
            });
        } else {
            comment.clear();
        }
    }
    entries
}
