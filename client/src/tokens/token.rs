//! Bearer tokens, `qlt_ID_SECRET`: their format, and new ones. The id identifies the record; only a hash of the whole is
//! stored.

use std::fmt;

use quota_semantics::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::{Pattern, Role, file::Token};

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
    pub fn parse(whole: &'a str) -> Option<Self> {
        let (id, secret) = whole.strip_prefix(PREFIX)?.split_once('_')?;
        let fits = whole.len() <= TOKEN_BYTES_MAX && is_id(id) && !secret.is_empty();
        fits.then_some(Self { id, whole })
    }

    /// The hash that the file holds instead of the token. `printf %s TOKEN | b3sum` prints the same.
    pub fn hash(self) -> blake3::Hash {
        blake3::hash(self.whole.as_bytes())
    }
}

/// Whether a text can be the id of a token.
pub(super) fn is_id(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'))
}

/// A secret that `Debug` does not show.
pub struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself, for its holder.
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
    let mut parts = text.split(PREFIX);
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        clean.push_str("[redacted]");
        clean.push_str(part.trim_start_matches(is_of_token));
    }
    clean
}

/// Bytes of a new token's id: enough to be unique in a file. It is not a secret.
const ID_BYTES: usize = 6;

/// Bytes of a token's secret: 256 bits cannot be guessed, so a fast hash is sufficient.
const SECRET_BYTES: usize = 32;

/// A new token.
#[derive(Debug)]
pub struct Issued {
    /// The token for its holder. It cannot be recovered later.
    pub token: Secret,
    /// The record for the tokens file.
    pub record: Token,
}

/// The operating system gives no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random numbers")]
pub struct NoRandomness;

/// Issues a token for a principal.
///
/// # Errors
/// [`NoRandomness`].
pub fn issue(
    principal: &str,
    roles: Vec<Role>,
    namespaces: Vec<Pattern>,
    expires: Option<Timestamp>,
) -> Result<Issued, NoRandomness> {
    let id = random_hex::<ID_BYTES>()?;
    let secret = random_hex::<SECRET_BYTES>()?;
    let whole = format!("{PREFIX}{id}_{secret}");
    let record = Token {
        hash: PresentedToken { id: &id, whole: &whole }.hash(),
        id,
        principal: principal.to_owned(),
        roles,
        namespaces,
        expires,
    };
    Ok(Issued { token: Secret::new(whole), record })
}

/// Random bytes of the operating system.
///
/// # Errors
/// It gives none.
pub fn random_bytes<const BYTES: usize>() -> Result<[u8; BYTES], NoRandomness> {
    let mut bytes = [0; BYTES];
    let random = SystemRandom::new().fill(&mut bytes);
    random.map_err(|_| NoRandomness)?;
    Ok(bytes)
}

fn random_hex<const BYTES: usize>() -> Result<String, NoRandomness> {
    let bytes = random_bytes::<BYTES>()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_token_is_not_taken_for_one() {
        let long = format!("qlt_a_{}", "b".repeat(200));
        for text in ["", "qlt_", "qlt_a", "qlt_a_", "qlt__b", "qlt_A_b", "QLT_a_b", "a_b", &long] {
            assert!(PresentedToken::parse(text).is_none(), "{text}");
        }
    }

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

    #[test]
    fn a_token_is_read_as_it_was_made() {
        let issued = issue("ci", vec![Role::Read], vec![Pattern::all()], None).unwrap();
        let text = issued.token.reveal();
        let presented = PresentedToken::parse(text).unwrap();
        assert_eq!(presented.id, issued.record.id);
        assert_eq!(presented.hash(), issued.record.hash);
        assert_eq!(text.len(), 4 + 12 + 1 + 64);
        let other = issue("ci", vec![Role::Read], vec![Pattern::all()], None).unwrap();
        assert_ne!(other.record.id, issued.record.id);
        assert_ne!(other.record.hash, issued.record.hash);
    }
}
