//! Why input cannot be read, in words for people who do not know the libraries that read it.

use std::{error::Error as _, fmt};

use axum::extract::{Query, rejection::QueryRejection};
use http::Uri;
use serde::de::DeserializeOwned;

/// Reads the query of a request. Unknown parameters are ignored.
///
/// # Errors
/// A parameter has a wrong value, or is there twice: the text names it.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, String> {
    match Query::try_from_uri(uri) {
        Ok(Query(query)) => Ok(query),
        Err(QueryRejection::FailedToDeserializeQueryString(rejection)) => {
            // Its own text says no more than that it is about a query.
            let why = rejection.source().map(ToString::to_string);
            let why = why.unwrap_or_else(|| "it is malformed".to_owned());
            Err(format!("cannot read the query: {}", in_plain_words(&why)))
        }
        Err(_) => Err("cannot read the query".to_owned()),
    }
}

/// The error of serde or one of its formats without the types of this program: `expected struct Holder` becomes
/// `expected an object`.
pub(crate) fn in_plain_words(error: &dyn fmt::Display) -> String {
    let text = error.to_string();
    let mut words = text.split(' ').peekable();
    let mut plain = Vec::new();
    while let Some(word) = words.next() {
        plain.push(word);
        match word {
            "type:" => match words.peek() {
                Some(&"map,") => plain.extend(words.next().map(|_| "object,")),
                Some(&"sequence,") => plain.extend(words.next().map(|_| "array,")),
                _ => {}
            },
            "expected" => {
                let mut ahead = words.clone();
                let kind = ahead.by_ref().take(3).find(|word| ["struct", "enum"].contains(word));
                if let Some(kind) = kind {
                    // The name of the type.
                    ahead.next();
                    words = ahead;
                    plain.push(if kind == "struct" { "an object" } else { "another value" });
                    if words.peek() == Some(&"with") {
                        words.by_ref().take(3).for_each(drop);
                    }
                } else if let Some(number) = words.peek().and_then(|word| number(word)) {
                    words.next();
                    plain.push(number);
                }
            }
            _ => {}
        }
    }
    plain.join(" ")
}

/// What a type of numbers is for people.
fn number(of_type: &str) -> Option<&'static str> {
    match of_type {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => Some("a whole number from 0"),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => Some("a whole number"),
        "f32" | "f64" => Some("a number"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Inner {
        limit: Option<usize>,
        deep: Option<Box<Inner>>,
        pair: Option<(i64, f64)>,
        choice: Option<Choice>,
    }

    #[derive(Debug, Deserialize)]
    enum Choice {
        One,
    }

    #[test]
    fn a_query_is_refused_with_the_parameter() {
        let refused = |query: &str| {
            let uri = format!("/x?{query}").parse().unwrap();
            self::query::<Inner>(&uri).unwrap_err()
        };
        let text = refused("limit=x");
        assert!(text.starts_with("cannot read the query: limit: "), "{text}");
        let text = refused("limit=1&limit=2");
        assert_eq!(text, "cannot read the query: duplicate field `limit`");
        let uri = "/x?limit=5&other=1".parse().unwrap();
        assert_eq!(self::query::<Inner>(&uri).unwrap().limit, Some(5));
    }

    #[test]
    fn errors_of_serde_name_no_types_of_this_program() {
        for (text, plain) in [
            ("5", "invalid type: integer `5`, expected an object at line 1 column 1"),
            (
                r#"{"limit": "x"}"#,
                "invalid type: string \"x\", expected a whole number from 0 at line 1 column 13",
            ),
            (
                r#"{"limit": {}}"#,
                "invalid type: object, expected a whole number from 0 at line 1 column 10",
            ),
            (r#"{"deep": 1}"#, "invalid type: integer `1`, expected an object at line 1 column 10"),
            (
                r#"{"pair": ["x", 1]}"#,
                "invalid type: string \"x\", expected a whole number at line 1 column 13",
            ),
            (
                r#"{"pair": [1, "x"]}"#,
                "invalid type: string \"x\", expected a number at line 1 column 16",
            ),
            (r#"{"choice": 1}"#, "expected value at line 1 column 12"),
            (r#"{"choice": "Two"}"#, "unknown variant `Two`, expected `One` at line 1 column 16"),
            ("{", "EOF while parsing an object at line 1 column 1"),
        ] {
            let error = serde_json::from_str::<Inner>(text).unwrap_err();
            assert_eq!(in_plain_words(&error), plain, "{text}");
        }
    }
}
