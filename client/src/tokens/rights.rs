//! The rights of callers: roles, and patterns of namespaces.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A permission of callers. No role includes another, so a caller that needs several has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read quotas, reservations, usage, objects, entries.
    Read,
    /// Reserve, extend, commit, release and check capacity.
    Reserve,
    /// Send object events.
    Ingest,
    /// Set and delete quotas.
    Admin,
}

/// A text that names no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a role: {0:?}")]
pub struct ParseRoleError(String);

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Read, Self::Reserve, Self::Ingest, Self::Admin];

    /// Its name in the tokens file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Reserve => "reserve",
            Self::Ingest => "ingest",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Role {
    type Err = ParseRoleError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut roles = Self::ALL.into_iter();
        let role = roles.find(|role| role.as_str() == text);
        role.ok_or_else(|| ParseRoleError(text.to_owned()))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A namespace, or several by `*`, which matches any run of characters: `team-*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Pattern(String);

/// A text that cannot match any namespace's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a pattern of namespaces such as \"team-*\": {0:?}")]
pub struct ParsePatternError(String);

/// The longest name of a namespace (RFC 1123 label).
const NAMESPACE_BYTES_MAX: usize = 63;

impl Pattern {
    /// Matches every namespace.
    pub fn all() -> Self {
        Self("*".to_owned())
    }

    /// Whether the pattern is `*`: every namespace, and also resources without a namespace.
    pub fn is_all(&self) -> bool {
        self.0 == "*"
    }

    /// How many bytes it takes in a list, with its quotes and a comma.
    pub(crate) fn quoted_bytes(&self) -> usize {
        self.0.len() + r#""","#.len()
    }

    /// Whether a namespace matches.
    pub fn matches(&self, namespace: &str) -> bool {
        let (mut pattern, mut text) = (self.0.as_bytes(), namespace.as_bytes());
        // The pattern behind the last `*`, and the text at which that `*` ends at present: after a mismatch it takes
        // one byte more.
        let mut last: Option<(&[u8], &[u8])> = None;
        loop {
            match (pattern, text) {
                ([b'*'], _) => return true,
                ([b'*', rest @ ..], _) => {
                    pattern = rest;
                    last = Some((rest, text));
                }
                ([wanted, after @ ..], [byte, rest @ ..]) if wanted == byte => {
                    (pattern, text) = (after, rest);
                }
                ([], []) => return true,
                _ => {
                    let Some((after, [_, rest @ ..])) = last else {
                        return false;
                    };
                    (pattern, text) = (after, rest);
                    last = Some((after, rest));
                }
            }
        }
    }
}

impl FromStr for Pattern {
    type Err = ParsePatternError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'*');
        if (1..=NAMESPACE_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        Err(ParsePatternError(text.to_owned()))
    }
}

impl TryFrom<String> for Pattern {
    type Error = ParsePatternError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, namespace: &str) -> bool {
        pattern.parse::<Pattern>().unwrap().matches(namespace)
    }

    #[test]
    fn a_star_stands_for_any_run() {
        for (pattern, namespace, expected) in [
            ("team-a", "team-a", true),
            ("team-a", "team-ab", false),
            ("team-a", "team-", false),
            ("team-*", "team-a", true),
            ("team-*", "team-", true),
            ("team-*", "team", false),
            ("team-*", "my-team-a", false),
            ("*-prod", "a-prod", true),
            ("*-prod", "a-prod-b-prod", true),
            ("*-prod", "a-prod-b", false),
            ("a*b*c", "abbc", true),
            ("a*b*c", "acb", false),
            ("*", "anything", true),
            ("*", "", true),
            ("team-*", "", false),
        ] {
            assert_eq!(matches(pattern, namespace), expected, "{pattern} {namespace}");
        }
    }

    #[test]
    fn what_no_namespace_could_match_is_refused() {
        for text in ["", "Team", "a.b", "a/b", "team-?", "a b", &"a".repeat(64)] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }

    /// By trying every way to split the text.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', rest @ ..] => (0..=text.len()).any(|taken| naive(rest, &text[taken..])),
            [byte, rest @ ..] => text.first() == Some(byte) && naive(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn it_matches_as_trying_everything_does(pattern in "[ab*]{1,8}", text in "[ab]{0,10}") {
            prop_assert_eq!(matches(&pattern, &text), naive(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
