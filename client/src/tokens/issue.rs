//! New tokens.

use quota_semantics::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::{Pattern, PresentedToken, Role, file::Token, secret::Secret, token::PREFIX};

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
