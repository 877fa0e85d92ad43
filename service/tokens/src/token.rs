//! The form of a bearer token: `qlt_ID_SECRET`. The id finds its record; only a hash of the whole is stored.

use quota_semantics::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::{Pattern, Role, file, secret::Secret};

/// What every token begins with, so that scanners for leaked secrets know one.
pub(super) const PREFIX: &str = "qlt_";

/// Bytes of a new token's id: enough to be unique in a file, it is no secret.
const ID_BYTES: usize = 6;

/// Bytes of a token's secret: 256 bits cannot be guessed, which is why a fast hash suffices.
const SECRET_BYTES: usize = 32;

/// Longer texts are no tokens.
const TOKEN_BYTES_MAX: usize = 128;

/// A token as a caller presents it.
#[derive(Clone, Copy)]
pub struct PresentedToken<'a> {
    /// The part that finds its record.
    pub id: &'a str,
    whole: &'a str,
}

impl<'a> PresentedToken<'a> {
    /// Takes a text for a token; none if it cannot be one.
    #[must_use]
    pub fn parse(whole: &'a str) -> Option<Self> {
        let (id, secret) = whole.strip_prefix(PREFIX)?.split_once('_')?;
        let fits = whole.len() <= TOKEN_BYTES_MAX && is_id(id) && !secret.is_empty();
        fits.then_some(Self { id, whole })
    }

    /// What the file holds instead of the token. `printf %s TOKEN | b3sum` makes the same.
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

/// A new token.
#[derive(Debug)]
pub struct Issued {
    /// What its holder sends; it cannot be had again.
    pub token: Secret,
    /// What the tokens file holds.
    pub record: file::Token,
}

/// The operating system gives no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gives no random numbers")]
pub struct NoRandomness;

/// Makes a token for a principal.
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
    let record = file::Token {
        hash: PresentedToken {
            id: &id,
            whole: &whole,
        }
        .hash(),
        id,
        principal: principal.to_owned(),
        roles,
        namespaces,
        expires,
    };
    Ok(Issued {
        token: Secret::new(whole),
        record,
    })
}

fn random_hex<const BYTES: usize>() -> Result<String, NoRandomness> {
    let mut bytes = [0; BYTES];
    let random = SystemRandom::new().fill(&mut bytes);
    random.map_err(|_| NoRandomness)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

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
