//! Identities of members and ledgers.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

/// Most bytes of a node's name.
const NAME_MAX: usize = 63;

/// A text that is not a valid name or id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(&'static str);

/// The name of a node, unique in its cluster: 1 to 63 of `a-z`, `A-Z`, `0-9`, `-` and `_`, so that it can be part of a
/// subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(Arc<str>);

impl NodeName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if text.is_empty() || text.len() > NAME_MAX || !text.bytes().all(is_allowed) {
            return Err(ParseError(
                "a node's name has 1 to 63 characters, each a letter, a digit, `-` or `_`",
            ));
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for NodeName {
    type Error = ParseError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identifies a replicated ledger, and distinguishes it from an earlier one of the same name. Drawn at random when the
/// cluster is initialised; printed as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LedgerId([u8; 16]);

impl LedgerId {
    /// The id of these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl FromStr for LedgerId {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| u128::from_str_radix(text, 16).ok())
            .flatten();
        number
            .map(|number| Self(number.to_be_bytes()))
            .ok_or(ParseError("a ledger's id has 32 hexadecimal digits"))
    }
}

impl TryFrom<String> for LedgerId {
    type Error = ParseError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<LedgerId> for String {
    fn from(id: LedgerId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for LedgerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for LedgerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The identity of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its node.
    pub node: NodeName,
    /// Drawn at random at each start, so that messages of an earlier process are never taken for those of this one.
    pub instance: u64,
    /// The partition of the ledger. There is only one so far: 0.
    pub partition: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_print_and_parse() {
        let id = LedgerId::from_bytes([0xA0; 16]);
        assert_eq!(id.to_string(), "a0".repeat(16));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("a0".parse::<LedgerId>().is_err());
        assert!(format!("+{}", "a".repeat(31)).parse::<LedgerId>().is_err());
        assert_eq!("node-1_a".parse::<NodeName>().unwrap().as_str(), "node-1_a");
        for wrong in ["", "a.b", "a b", "ä", &"a".repeat(64)] {
            assert!(wrong.parse::<NodeName>().is_err(), "{wrong}");
        }
    }
}
