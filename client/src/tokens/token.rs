//! The format of a bearer token: `qlt_ID_SECRET`. The id identifies its record; only a hash of the whole is stored.

/// The prefix of every token, so that scanners for leaked secrets can recognise it.
pub(super) const PREFIX: &str = "qlt_";

/// Longer texts are not tokens.
const TOKEN_BYTES_MAX: usize = 128;

/// A token as a caller presents it.
#[derive(Clone, Copy)]
pub struct PresentedToken<'a> {
    /// The part that identifies its record.
    pub id: &'a str,
    pub(super) whole: &'a str,
}

impl<'a> PresentedToken<'a> {
    /// Parses a token; none if the text cannot be one.
    #[must_use]
    pub fn parse(whole: &'a str) -> Option<Self> {
        let (id, secret) = whole.strip_prefix(PREFIX)?.split_once('_')?;
        let fits = whole.len() <= TOKEN_BYTES_MAX && is_id(id) && !secret.is_empty();
        fits.then_some(Self { id, whole })
    }

    /// The hash that the file holds instead of the token. `printf %s TOKEN | b3sum` prints the same.
    #[must_use]
    pub fn hash(self) -> blake3::Hash {
        blake3::hash(self.whole.as_bytes())
    }
}

/// Whether a text can be the id of a token.
pub(super) fn is_id(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_token_is_not_taken_for_one() {
        let long = format!("qlt_a_{}", "b".repeat(200));
        for text in [
            "", "qlt_", "qlt_a", "qlt_a_", "qlt__b", "qlt_A_b", "QLT_a_b", "a_b", &long,
        ] {
            assert!(PresentedToken::parse(text).is_none(), "{text}");
        }
    }
}
