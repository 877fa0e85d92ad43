//! The tokens file in force.

use std::{
    collections::HashMap,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use http::{HeaderMap, header};
use quota_client::tokens::PresentedToken;
use quota_semantics::Timestamp;
use tokio::sync::watch;

use super::{Certificate, File, FileError, Principal, Token};
use crate::{
    config::schema,
    log_limiter::LogLimiter,
    metrics::{self, AuthRefusal},
    reload::Followed,
};

/// A larger file is refused.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Authenticates callers. Clones share the register.
#[derive(Clone)]
pub struct Authenticator(Arc<Shared>);

struct Shared {
    /// None if every caller is anonymous.
    register: Option<watch::Sender<Arc<Register>>>,
    refusals: LogLimiter,
}

/// Why a tokens file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("auth.tokens_file = {path}: {cause}", path = path.display())]
pub struct Error {
    path: PathBuf,
    cause: Cause,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error(transparent)]
    File(#[from] FileError),
}

impl Authenticator {
    /// An authenticator that requires no token.
    pub fn off() -> Self {
        Self::with(None)
    }

    /// The same authenticator; without any principal if no token is required.
    #[must_use]
    pub(crate) fn or_nobody(self) -> Self {
        match self.is_required() {
            true => self,
            false => Self::with(Some(watch::channel(Arc::default()).0)),
        }
    }

    /// Reads the configured file, if there is one; the [`Follower`] applies later changes of the file.
    ///
    /// # Errors
    /// The file cannot be read or used.
    pub fn load(config: &schema::Auth) -> Result<(Self, Option<Follower>), Error> {
        let Some(path) = &config.tokens_file else {
            return Ok((Self::off(), None));
        };
        let error = |cause| Error { path: path.clone(), cause };
        let text = read(path).map_err(|cause| error(cause.into()))?;
        let register = Register::from(File::parse(&text).map_err(|cause| error(cause.into()))?);
        tracing::info!(records = register.len(), "callers need a token or certificate");
        let (register, _) = watch::channel(Arc::new(register));
        let authenticator = Self::with(Some(register));
        let follower = Follower {
            authenticator: authenticator.clone(),
            path: path.clone(),
            seen: blake3::hash(text.as_bytes()),
        };
        Ok((authenticator, Some(follower)))
    }

    fn with(register: Option<watch::Sender<Arc<Register>>>) -> Self {
        Self(Arc::new(Shared { register, refusals: LogLimiter::new(1) }))
    }

    /// Whether callers need a token.
    pub(crate) fn is_required(&self) -> bool {
        self.0.register.is_some()
    }

    /// The registers in force over time; none if every caller is anonymous.
    pub(super) fn registers(&self) -> Option<watch::Receiver<Arc<Register>>> {
        self.0.register.as_ref().map(watch::Sender::subscribe)
    }

    /// Limits the log lines about rejected callers.
    pub(super) fn refusals(&self) -> &LogLimiter {
        &self.0.refusals
    }
}

/// Follows changes of the tokens file.
pub struct Follower {
    authenticator: Authenticator,
    path: PathBuf,
    /// The hash of the text that was read last, usable or not, so that one bad file is logged once.
    seen: blake3::Hash,
}

impl Followed for Follower {
    type Content = String;

    fn news(&mut self) -> Option<String> {
        match read(&self.path) {
            // An empty file is ignored: an editor that writes in place truncates the file first. A file without tokens
            // needs at least a comment.
            Ok(text) if text.is_empty() => None,
            Ok(text) => (blake3::hash(text.as_bytes()) != self.seen).then_some(text),
            // The file may be missing while it is being replaced; the next look will find it.
            Err(error) => {
                tracing::warn!(%error, "the tokens file cannot be read, the old one stays");
                metrics::tokens_reload_failed();
                None
            }
        }
    }

    fn take(&mut self, text: String) {
        self.seen = blake3::hash(text.as_bytes());
        match File::parse(&text) {
            Ok(file) => {
                let register = Register::from(file);
                tracing::info!(records = register.len(), "a new tokens file is in force");
                if let Some(registers) = &self.authenticator.0.register {
                    registers.send_replace(Arc::new(register));
                }
            }
            Err(error) => {
                tracing::error!(%error, "the new tokens file cannot be used, the old one stays");
                metrics::tokens_reload_failed();
            }
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_BYTES_MAX {
        let message = format!("is larger than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

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
