//! Reads the YAML of requests.

use serde::{Deserialize, de::Error as _};
use serde_saphyr::{Budget, Error, budget, from_str_with_options, options};

/// The bytes and values that any text may have, including those that its aliases repeat.
const SMALL: usize = 16 * 1024;

/// Reads a text in YAML. Including the values that its aliases repeat, it may have at most twice its length: a short
/// text could take any amount of memory otherwise.
///
/// # Errors
/// It is not YAML, not of this type, or repeats too much. The error quotes no line of the text.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(text).map_err(Error::custom)?;
    let most = text.len().saturating_mul(2).max(SMALL);
    let options = options! {
        budget: budget! {
            max_nodes: most.min(Budget::default().max_nodes),
            max_total_scalar_bytes: most,
            max_recorded_anchor_events: most,
            max_recorded_anchor_bytes: most,
        },
        with_snippet: false,
    };
    from_str_with_options(text, options)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn aliases(count: usize) -> String {
        vec!["*a"; count].join(", ")
    }

    #[test]
    fn a_text_may_repeat_some_of_itself() {
        let text = "a: &a {b: [1, x]}\nc: *a\nd: {<<: *a, e: 2}";
        let b = json!([1, "x"]);
        let expected = json!({"a": {"b": b}, "c": {"b": b}, "d": {"b": b, "e": 2}});
        assert_eq!(read::<Value>(text.as_bytes()).unwrap(), expected);
        let short = format!("a: &a {}\nx: [{}]", "y".repeat(100), aliases(90));
        assert!(read::<Value>(short.as_bytes()).is_ok());
    }

    #[test]
    fn no_text_is_much_longer_with_what_it_repeats() {
        let text = format!("a: &a '{}'\nx: [{}]", "\"".repeat(100_000), aliases(3));
        assert!(read::<Value>(text.as_bytes()).is_err());
        let items = vec!["1"; 1000].join(", ");
        let text = format!("a: &a [{items}]\nx: [{}]", aliases(20));
        assert!(read::<Value>(text.as_bytes()).is_err());
        // Each value is kept for each anchor that it stands below.
        let open = (0..60).map(|level| format!("&l{level} ["));
        let text = format!("{}{items}{}", open.collect::<String>(), "]".repeat(60));
        assert!(read::<Value>(text.as_bytes()).is_err());
    }

    #[test]
    fn a_text_without_aliases_may_have_any_length() {
        let fields = (0..20_000).map(|number| format!("k{number}: \"\\L\\P\\e\"\n"));
        let text = fields.collect::<String>();
        let read = read::<BTreeMap<String, String>>(text.as_bytes()).unwrap();
        assert_eq!(read.len(), 20_000);
        let items = vec!["-"; 50_000].join("\n");
        assert!(super::read::<Value>(items.as_bytes()).is_ok());
    }

    #[test]
    fn errors_quote_no_line() {
        for text in [&b"a: [b"[..], b"a: {b: 1, b: 2}", b"\xff"] {
            let error = read::<Value>(text).unwrap_err().to_string();
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
