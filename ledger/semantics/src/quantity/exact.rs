//! Preserves the exact numbers of JSON texts.
//!
//! A JSON value holds a number in 64 bits, so `1000000000000000000001` would be read as `1e21`. A quantity may also be
//! written as a string, and then is exact.

use std::{borrow::Cow, ops::Range};

use serde_json::{Value, value::RawValue};

use super::Quantity;

/// The same JSON, with each number replaced by a string if a [`Value`] would not hold its exact quantity. In nearly all
/// texts nothing changes. Invalid JSON stays invalid.
pub fn exact_numbers(json: &[u8]) -> Cow<'_, [u8]> {
    let mut exact = Vec::new();
    let mut copied = 0;
    for Range { start, end } in inexact(json) {
        exact.extend_from_slice(&json[copied..start]);
        exact.push(b'"');
        exact.extend_from_slice(&json[start..end]);
        exact.push(b'"');
        copied = end;
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    exact.extend_from_slice(&json[copied..]);
    Cow::Owned(exact)
}

/// The numbers that are not exact as values.
fn inexact(json: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < json.len() {
            let start = at;
            match json[at] {
                b'"' => at = behind_string(json, at),
                b'-' | b'0'..=b'9' => {
                    let in_number =
                        |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                    at += json[at..].iter().take_while(in_number).count();
                    // A string before a colon is a key.
                    let is_key = json[at..].trim_ascii_start().starts_with(b":");
                    if !is_key && loses(&json[start..at]) {
                        return Some(start..at);
                    }
                }
                _ => at += 1,
            }
        }
        None
    })
}

/// The end of the string that begins at this position.
fn behind_string(json: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

/// Whether the number changes when it becomes a value.
fn loses(token: &[u8]) -> bool {
    /// Numbers of at most this many characters are always exact.
    const SHORT: usize = 15;
    let has_exponent = token.iter().any(|byte| matches!(byte, b'e' | b'E'));
    if token.len() <= SHORT && !has_exponent {
        return false;
    }
    let Ok(token) = std::str::from_utf8(token) else {
        return false;
    };
    if serde_json::from_str::<&RawValue>(token).is_err() {
        return false;
    }
    let read = |text: &str| text.parse::<Quantity>().ok();
    let held = serde_json::from_str::<Value>(token).ok();
    let held = held.and_then(|held| read(&held.to_string()));
    held.is_none() || held != read(token)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> Value {
        serde_json::from_slice(&exact_numbers(json.as_bytes())).unwrap()
    }

    #[test]
    fn what_a_value_cannot_hold_becomes_a_string() {
        for (json, exact) in [
            (r#"{"a":1000000000000000000001}"#, r#"{"a":"1000000000000000000001"}"#),
            (r#"[123456789.123456781,1e400]"#, r#"["123456789.123456781","1e400"]"#),
            (r#"{"a":[-18446744073709551617]}"#, r#"{"a":["-18446744073709551617"]}"#),
        ] {
            assert_eq!(exact_numbers(json.as_bytes()), exact.as_bytes());
        }
        for json in [
            r#"{"a":1e21,"b":18446744073709551615,"c":-0.5,"d":1e-3}"#,
            r#"{"a\"1000000000000000000001":"1000000000000000000001\\"}"#,
            "1000000000000000000001e+-",
            "01000000000000000000001",
            "\"1000000000000000000001",
        ] {
            assert!(matches!(exact_numbers(json.as_bytes()), Cow::Borrowed(_)), "{json}");
        }
    }

    proptest! {
        #[test]
        fn every_number_is_the_quantity_that_is_written(
            number in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,12})?([eE][-+]?[0-9]{1,2})?",
        ) {
            if let Ok(quantity) = number.parse::<Quantity>() {
                let json = format!("{{\"a\": [{number} ]}}");
                let held = &read(&json)["a"][0];
                prop_assert_eq!(serde_json::from_value::<Quantity>(held.clone()).unwrap(), quantity);
            }
        }

        #[test]
        fn text_of_any_kind_is_taken(text in "[\\\\\"0-9e.{}:, \\[-]{0,60}") {
            let exact = exact_numbers(text.as_bytes());
            let before = serde_json::from_str::<&RawValue>(&text).is_ok();
            prop_assert_eq!(serde_json::from_slice::<&RawValue>(&exact).is_ok(), before);
        }
    }
}
