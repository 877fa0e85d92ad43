//! The form in which the ledger records a name that only an API server takes.

use crate::syntax::MAX_SUBDOMAIN;

/// The digits of the hash in a short form.
const HASH_DIGITS: usize = 16;

/// The short form of a name that is longer than 253 bytes, or has control characters: its beginning, and its hash, by
/// which it differs from other long names. None: the name is recorded as it is.
///
/// API servers take names of roles of any length. The author of such a name chose it; it must not make everyone's
/// lists incomplete.
pub fn short_name(name: &str) -> Option<String> {
    if name.len() <= MAX_SUBDOMAIN && !name.contains(char::is_control) {
        return None;
    }
    let most = MAX_SUBDOMAIN - 1 - HASH_DIGITS;
    let end = (0..=most).rev().find(|at| name.is_char_boundary(*at));
    let begin = &name[..end.unwrap_or(0)];
    let printable = begin.replace(char::is_control, "_");
    let hash = blake3::hash(name.as_bytes()).to_hex();
    Some(format!("{printable}~{}", &hash[..HASH_DIGITS]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_form_is_short_and_differs_from_that_of_other_names() {
        for name in ["", "web-0", "ü b:c", &"x".repeat(253)] {
            assert_eq!(short_name(name), None, "{name}");
        }
        let long = |end: &str| format!("{}{end}", "ü".repeat(200));
        let names =
            [long("a"), long("b"), "x".repeat(254), "a\u{1b}".repeat(200), "\u{85}".to_owned()];
        let short: Vec<_> = names.iter().filter_map(|name| short_name(name)).collect();
        for (at, name) in short.iter().enumerate() {
            assert_eq!(short_name(name), None, "{name} is short");
            assert!(!short[..at].contains(name), "{name}");
        }
        assert_eq!(short.len(), names.len());
        assert!(short[3].starts_with("a_a_") && short[4].starts_with("_~"));
        // Ledgers have recorded it.
        assert_eq!(short_name("a\u{1b}[b").as_deref(), Some("a_[b~c5169889b5ecd060"));
    }
}
