//! Finds the principal of what a caller shows.

use std::collections::HashMap;

use http::{HeaderMap, header};
use quota_semantics::Timestamp;
use quota_tokens::PresentedToken;

use super::{Certificate, File, Principal, Token};
use crate::metrics::AuthRefusal;

/// All tokens and certificates in force.
#[derive(Debug, Default)]
pub(super) struct Register {
    tokens: HashMap<String, StoredToken>,
    certificates: HashMap<String, Principal>,
}

#[derive(Debug)]
struct StoredToken {
    /// Compared in constant time, by `blake3::Hash` itself.
    hash: blake3::Hash,
    principal: Principal,
    expires: Option<Timestamp>,
}

/// What a caller shows, without its secret.
#[derive(Clone, Debug)]
pub(super) enum Credential {
    /// A bearer token.
    Token { id: String, hash: blake3::Hash },
    /// A client certificate with this name.
    Certificate { name: String },
}

impl From<File> for Register {
    fn from(file: File) -> Self {
        let token = |token: Token| {
            let principal = Principal::new(&token.principal, &token.roles, &token.namespaces);
            let (hash, expires) = (token.hash, token.expires);
            let known = StoredToken {
                hash,
                principal,
                expires,
            };
            (token.id, known)
        };
        let certificate = |certificate: Certificate| {
            let Certificate {
                name,
                principal,
                roles,
                namespaces,
            } = certificate;
            (name, Principal::new(&principal, &roles, &namespaces))
        };
        Self {
            tokens: file.tokens.into_iter().map(token).collect(),
            certificates: file.certificates.into_iter().map(certificate).collect(),
        }
    }
}

impl Register {
    /// How many records there are.
    pub(super) fn len(&self) -> usize {
        self.tokens.len() + self.certificates.len()
    }

    /// What is shown by these headers, over a connection whose certificate bears these names. A token counts
    /// before a certificate, good or not; of several names the first that has a record counts.
    pub(super) fn credential(
        &self,
        headers: &HeaderMap,
        names: &[String],
    ) -> Result<Credential, AuthRefusal> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            let known = |name: &&String| self.certificates.contains_key(*name);
            return match names.iter().find(known) {
                Some(name) => Ok(Credential::Certificate { name: name.clone() }),
                None if names.is_empty() => Err(AuthRefusal::Missing),
                None => Err(AuthRefusal::Unknown),
            };
        };
        let token = value
            .to_str()
            .ok()
            .and_then(bearer)
            .and_then(PresentedToken::parse);
        let Some(token) = token.filter(|_| values.next().is_none()) else {
            return Err(AuthRefusal::Malformed);
        };
        Ok(Credential::Token {
            id: token.id.to_owned(),
            hash: token.hash(),
        })
    }

    /// Whose a credential is.
    pub(super) fn holder(
        &self,
        credential: &Credential,
        now: Timestamp,
    ) -> Result<&Principal, AuthRefusal> {
        match credential {
            Credential::Token { id, hash } => {
                let known = self.tokens.get(id).filter(|known| known.hash == *hash);
                let known = known.ok_or(AuthRefusal::Unknown)?;
                if known.expires.is_some_and(|expires| expires <= now) {
                    return Err(AuthRefusal::Expired);
                }
                Ok(&known.principal)
            }
            Credential::Certificate { name } => {
                self.certificates.get(name).ok_or(AuthRefusal::Unknown)
            }
        }
    }

    /// When a credential ends by itself.
    pub(super) fn expires(&self, credential: &Credential) -> Option<Timestamp> {
        match credential {
            Credential::Token { id, .. } => self.tokens.get(id)?.expires,
            Credential::Certificate { .. } => None,
        }
    }
}

/// The token of a header's value (RFC 6750); the scheme's case does not matter.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
