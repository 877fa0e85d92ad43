//! Escaping of untrusted text for a terminal.

use std::borrow::Cow;

/// Whether a character makes a terminal show something else than the text: control characters, line separators,
/// characters that change the direction of text, and characters that nothing is shown for (Unicode's
/// `Default_Ignorable_Code_Point`, interlinear annotations, and blanks that take no room or look like letters).
pub(crate) fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
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
            true => {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units);
                escaped.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
            }
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
    text.chars().map(|c| if misleads(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn no_control_character_gets_through() {
        assert_eq!(one_line("a\u{1b}[31m\nb\u{9b}c\u{7f}"), "a\\u001b[31m\\u000ab\\u009bc\\u007f");
        assert_eq!(visible("a\tb\n", &['\n', '\t']), "a\tb\n");
        assert_eq!(one_line("äöü"), "äöü");
        assert_eq!(one_line("a\u{202e}b\u{2028}c"), "a\\u202eb\\u2028c");
        assert_eq!(
            one_line("a\u{200b}\u{200d}\u{feff}\u{ad}\u{2060}\u{fe0f}\u{e0041}z"),
            "a\\u200b\\u200d\\ufeff\\u00ad\\u2060\\ufe0f\\udb40\\udc41z"
        );
        assert_eq!(blank_controls("a\u{1b}[31m\nä\u{202e}b"), "a [31m ä b");
        let value = serde_json::json!({"name": "\u{1b}\u{9b}\u{7f}\n\u{feff}\u{e0041}"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let escaped = visible(&text, &['\n']);
        assert!(!escaped.contains(|c: char| misleads(c) && c != '\n'));
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), value);
    }
}
