//! Escaping of untrusted text for a terminal.

use std::borrow::Cow;

/// Whether a character makes a terminal show something else than the text: control characters, line separators, and
/// characters that change the direction of text.
pub(crate) fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with misleading characters, except for these, escaped as in JSON. JSON keeps its meaning.
pub(crate) fn visible<'a>(text: &'a str, except: &[char]) -> Cow<'a, str> {
    let hidden = |c: char| misleads(c) && !except.contains(&c);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match hidden(c) {
            true => escaped.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Untrusted text as one line: misleading characters are escaped.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    visible(text, &[])
}

/// The same text with a blank in place of each misleading character.
pub(crate) fn blank_controls(text: &str) -> String {
    text.chars()
        .map(|c| if misleads(c) { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn no_control_character_gets_through() {
        assert_eq!(
            one_line("a\u{1b}[31m\nb\u{9b}c\u{7f}"),
            "a\\u001b[31m\\u000ab\\u009bc\\u007f"
        );
        assert_eq!(visible("a\tb\n", &['\n', '\t']), "a\tb\n");
        assert_eq!(one_line("äöü"), "äöü");
        assert_eq!(one_line("a\u{202e}b\u{2028}c"), "a\\u202eb\\u2028c");
        assert_eq!(blank_controls("a\u{1b}[31m\nä\u{202e}b"), "a [31m ä b");
        let value = serde_json::json!({"name": "\u{1b}\u{9b}\u{7f}\n"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let escaped = visible(&text, &['\n']);
        assert!(!escaped.contains(|c: char| c.is_control() && c != '\n'));
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), value);
    }
}
