//! Secret text.

use std::fmt;

/// A secret that `Debug` does not show.
pub struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself, for its holder.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The text with every substring that begins like a token removed, for errors that quote their input: the mistake may
/// be a token in the wrong place.
pub(super) fn without_tokens(text: &str) -> String {
    let is_of_token = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut parts = text.split(super::token::PREFIX);
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        clean.push_str("[redacted]");
        clean.push_str(part.trim_start_matches(is_of_token));
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let secret = Secret::new("canary".to_owned());
        assert_eq!(format!("{secret:?}"), "[redacted]");
        assert_eq!(
            without_tokens("invalid \"qlt_ab_cdef\", or qlt_ab_12."),
            "invalid \"[redacted]\", or [redacted]."
        );
        assert_eq!(without_tokens("nothing here"), "nothing here");
    }
}
