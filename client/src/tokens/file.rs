//! The tokens file: the tokens and certificates, their principals, roles and namespaces.

use std::{collections::HashSet, fmt};

use quota_semantics::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{
    ANONYMOUS, Pattern, Role,
    token::{self, without_tokens},
};

/// The content of the file, in TOML.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct File {
    /// Bearer tokens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<Token>,
    /// Names of client certificates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<Certificate>,
}

/// A bearer token, without its secret. A principal may have several, so that one can be replaced before it
/// expires.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The part of the token that identifies this record; not a secret.
    pub id: String,
    /// BLAKE3 of the whole token, in hexadecimal digits.
    #[serde(serialize_with = "hash_to_hex", deserialize_with = "hash_from_hex")]
    pub hash: blake3::Hash,
    /// The principal, as entries name the actor.
    pub principal: String,
    /// The roles.
    pub roles: Vec<Role>,
    /// The namespaces.
    pub namespaces: Vec<Pattern>,
    /// When the token expires; none: it is valid until its record is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// A client certificate, identified by one of its names. It has to be signed by `tls.client_ca`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// A DNS SAN; with a colon, a URI SAN.
    pub name: String,
    /// The principal, as entries name the actor.
    pub principal: String,
    /// The roles.
    pub roles: Vec<Role>,
    /// The namespaces.
    pub namespaces: Vec<Pattern>,
}

/// Why a text is not a valid tokens file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is not TOML, or has unknown or missing fields.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The error, without any text that may be a secret.
        message: String,
    },
    /// A record is invalid.
    #[error("{record}: {message}")]
    Record {
        /// The record.
        record: String,
        /// The error.
        message: String,
    },
}

/// Most records: all of them are read at each change.
const RECORDS_MAX: usize = 10_000;

/// Longest name of a principal or certificate.
const NAME_BYTES_MAX: usize = 253;

/// Most bytes of a record's namespaces, each with its quotes and comma. In a cluster a forwarded request bears them in
/// its head, which may have 16 KiB with everything else.
const NAMESPACES_BYTES_MAX: usize = 8 * 1024;

impl File {
    /// Parses and validates a file.
    ///
    /// # Errors
    /// It is malformed, has duplicate names, or an empty record. No error holds a secret.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        // The error's own Display quotes the line.
        let file: Self = toml::from_str(text).map_err(|error| {
            let begin = error.span().map_or(0, |span| span.start);
            let before = text.as_bytes().iter().take(begin);
            FileError::Syntax {
                line: before.filter(|byte| **byte == b'\n').count() + 1,
                message: without_tokens(error.message()),
            }
        })?;
        file.check()?;
        Ok(file)
    }

    /// The text of the file.
    ///
    /// # Errors
    /// A value cannot be represented in TOML.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    fn check(&self) -> Result<(), FileError> {
        let count = self.tokens.len() + self.certificates.len();
        if count > RECORDS_MAX {
            return Err(wrong("the file", format!("has more than {RECORDS_MAX} records")));
        }
        let mut ids = HashSet::new();
        for token in &self.tokens {
            if !token::is_id(&token.id) {
                let message = "id must be 1 to 32 lower-case letters and digits";
                return Err(wrong("a token", message));
            }
            let record = format!("token {}", token.id);
            if !ids.insert(&token.id) {
                return Err(wrong(record, "is there twice"));
            }
            check_rights(&record, &token.principal, &token.roles, &token.namespaces)?;
        }
        let mut names = HashSet::new();
        for certificate in &self.certificates {
            let record = format!("certificate {:?}", without_tokens(&certificate.name));
            if !is_name(&certificate.name) {
                return Err(wrong(record, NAME_RULE));
            }
            if !names.insert(&certificate.name) {
                return Err(wrong(record, "is there twice"));
            }
            let Certificate { principal, roles, namespaces, .. } = certificate;
            check_rights(&record, principal, roles, namespaces)?;
        }
        Ok(())
    }
}

fn wrong(record: impl Into<String>, message: impl Into<String>) -> FileError {
    FileError::Record { record: record.into(), message: message.into() }
}

const NAME_RULE: &str = "names must be 1 to 253 printable ASCII characters without spaces";

fn check_rights(
    record: &str,
    principal: &str,
    roles: &[Role],
    namespaces: &[Pattern],
) -> Result<(), FileError> {
    if !is_name(principal) || principal.starts_with(token::PREFIX) {
        return Err(wrong(record, format!("principal: {NAME_RULE}")));
    }
    if is_of_the_daemon(principal) {
        return Err(wrong(record, format!("principal {principal} is a name of the daemon's own")));
    }
    if roles.is_empty() {
        return Err(wrong(record, "has no roles"));
    }
    if namespaces.is_empty() {
        return Err(wrong(record, "has no namespaces; all of them are [\"*\"]"));
    }
    let bytes: usize = namespaces.iter().map(Pattern::quoted_bytes).sum();
    if bytes > NAMESPACES_BYTES_MAX {
        let message = format!(
            "has namespaces of more than {NAMESPACES_BYTES_MAX} bytes in all; one pattern such as \"team-*\" can stand for many"
        );
        return Err(wrong(record, message));
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether the principal is reserved for the daemon's own entries: no caller may use it.
fn is_of_the_daemon(principal: &str) -> bool {
    principal == ANONYMOUS || principal == "clock" || principal.starts_with("nats:")
}

fn hash_to_hex<S: Serializer>(hash: &blake3::Hash, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hash.to_hex())
}

fn hash_from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<blake3::Hash, D::Error> {
    struct Hex;
    impl de::Visitor<'_> for Hex {
        type Value = blake3::Hash;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("64 hexadecimal digits")
        }
        // Without quoting the text: it may be the secret itself.
        fn visit_str<E: de::Error>(self, text: &str) -> Result<blake3::Hash, E> {
            blake3::Hash::from_hex(text)
                .map_err(|_| E::custom("hash must be 64 hexadecimal digits"))
        }
    }
    deserializer.deserialize_str(Hex)
}
