//! The tokens file: the callers of the API, and their permissions. The daemon reads it, `quotactl token` writes it.

use std::{collections::HashSet, fmt, str::FromStr};

use quota_semantics::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The principal of all callers if no tokens are configured.
pub const ANONYMOUS: &str = "anonymous";

// The tokens file: the tokens and certificates, their principals, roles and namespaces.

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
            if !is_id(&token.id) {
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
    if !is_name(principal) || principal.starts_with(PREFIX) {
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

// The rights of callers: roles, and patterns of namespaces.

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

// Bearer tokens, `qlt_ID_SECRET`: their format, and new ones. The id identifies the record; only a hash of the whole is
// stored.

/// The prefix of every token, so that scanners for leaked secrets can recognise it.
const PREFIX: &str = "qlt_";

/// Longer texts are not tokens.
const TOKEN_BYTES_MAX: usize = 128;

/// A token as a caller presents it.
#[derive(Clone, Copy)]
pub struct PresentedToken<'a> {
    /// The part that identifies its record.
    pub id: &'a str,
    whole: &'a str,
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
fn is_id(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'))
}

/// A secret that `Debug` does not show.
pub struct Secret(String);

impl Secret {
    fn new(text: String) -> Self {
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
fn without_tokens(text: &str) -> String {
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
