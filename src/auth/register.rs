//! Finds the principal of a presented credential.

use std::collections::HashMap;

use http::{HeaderMap, header};
use quota_client::tokens::PresentedToken;
use quota_semantics::Timestamp;

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

/// A credential as presented, without its secret.
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
            let stored = StoredToken { hash, principal, expires };
            (token.id, stored)
        };
        let certificate = |certificate: Certificate| {
            let Certificate { name, principal, roles, namespaces } = certificate;
            (name, Principal::new(&principal, &roles, &namespaces))
        };
        Self {
            tokens: file.tokens.into_iter().map(token).collect(),
            certificates: file.certificates.into_iter().map(certificate).collect(),
        }
    }
}

impl Register {
    /// The number of records.
    pub(super) fn len(&self) -> usize {
        self.tokens.len() + self.certificates.len()
    }

    /// The credential in these headers, on a connection whose certificate bears these names. A token takes precedence
    /// over a certificate, valid or not; of several names the first one with a record counts.
    pub(super) fn credential(
        &self,
        headers: &HeaderMap,
        names: &[String],
    ) -> Result<Credential, AuthRefusal> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            let has_record = |name: &&String| self.certificates.contains_key(*name);
            return match names.iter().find(has_record) {
                Some(name) => Ok(Credential::Certificate { name: name.clone() }),
                None if names.is_empty() => Err(AuthRefusal::Missing),
                None => Err(AuthRefusal::Unknown),
            };
        };
        let token = value.to_str().ok().and_then(bearer).and_then(PresentedToken::parse);
        let Some(token) = token.filter(|_| values.next().is_none()) else {
            return Err(AuthRefusal::Malformed);
        };
        Ok(Credential::Token { id: token.id.to_owned(), hash: token.hash() })
    }

    /// The principal that a credential belongs to.
    pub(super) fn holder(
        &self,
        credential: &Credential,
        now: Timestamp,
    ) -> Result<&Principal, AuthRefusal> {
        match credential {
            Credential::Token { id, hash } => {
                let stored = self.tokens.get(id).filter(|stored| stored.hash == *hash);
                let stored = stored.ok_or(AuthRefusal::Unknown)?;
                if stored.expires.is_some_and(|expires| expires <= now) {
                    return Err(AuthRefusal::Expired);
                }
                Ok(&stored.principal)
            }
            Credential::Certificate { name } => {
                self.certificates.get(name).ok_or(AuthRefusal::Unknown)
            }
        }
    }

    /// When a credential expires.
    pub(super) fn expires(&self, credential: &Credential) -> Option<Timestamp> {
        match credential {
            Credential::Token { id, .. } => self.tokens.get(id)?.expires,
            Credential::Certificate { .. } => None,
        }
    }
}

/// The token in a header value (RFC 6750); the scheme is case-insensitive.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
