//! The hash chain's links.

use std::{fmt, str::FromStr};

/// A BLAKE3 hash of 32 bytes: of a batch and all batches before it, or of a snapshot's content.
/// Printed and parsed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash before the first batch.
    pub const GENESIS: Self = Self([0; 32]);

    /// The hash of these bytes, as stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<blake3::Hash> for Hash {
    fn from(hash: blake3::Hash) -> Self {
        Self(hash.into())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a hash of 64 hexadecimal digits: {0:?}")]
pub struct ParseHashError(String);

impl FromStr for Hash {
    type Err = ParseHashError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        blake3::Hash::from_hex(text).map(Self::from).map_err(|_| ParseHashError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_prints_and_parses_as_hexadecimal() {
        let hash = Hash::from(blake3::hash(b"quota"));
        assert_eq!(hash.to_string().len(), 64);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!(Hash::GENESIS.to_string(), "0".repeat(64));
        assert!("abc".parse::<Hash>().is_err());
    }
}
