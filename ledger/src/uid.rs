//! The identity of an object.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The longest uid that is accepted, in bytes.
pub const UID_MAX_BYTES: usize = 128;

/// The `metadata.uid` of an object, or whatever else a producer identifies its objects by.
///
/// Kubernetes' uids are UUIDs, and there may be millions of them: those in canonical spelling are kept in
/// 16 bytes. Every uid prints exactly as it was given.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Form {
    Uuid([u8; 16]),
    Text(Box<str>),
}

/// A uid that is empty, longer than [`UID_MAX_BYTES`], or holds other than printable ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a uid is 1 to {UID_MAX_BYTES} printable ASCII characters")]
pub struct InvalidUid;

impl Uid {
    /// Reads a uid.
    ///
    /// # Errors
    /// If it is empty, too long, or not printable ASCII (it goes into logs and paths).
    pub fn new(text: &str) -> Result<Self, InvalidUid> {
        if let Some(bytes) = parse_uuid(text.as_bytes()) {
            return Ok(Self(Form::Uuid(bytes)));
        }
        let fits = (1..=UID_MAX_BYTES).contains(&text.len());
        if !fits || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidUid);
        }
        Ok(Self(Form::Text(text.into())))
    }

    /// The UUID of these 16 bytes.
    #[must_use]
    pub const fn from_uuid(bytes: [u8; 16]) -> Self {
        Self(Form::Uuid(bytes))
    }

    /// How many bytes it takes besides its place; none, if it is a UUID.
    pub(crate) fn text_len(&self) -> usize {
        match &self.0 {
            Form::Uuid(_) => 0,
            Form::Text(text) => text.len(),
        }
    }

    pub(crate) const fn form(&self) -> &Form {
        &self.0
    }

    pub(crate) const fn from_form(form: Form) -> Self {
        Self(form)
    }
}

/// Only the canonical spelling (lower case, hyphens at their places) is a UUID here, so that it prints back
/// unchanged.
fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0_u8; 16];
    let mut digits = 0_usize;
    for (place, &character) in text.iter().enumerate() {
        if matches!(place, 8 | 13 | 18 | 23) {
            if character != b'-' {
                return None;
            }
            continue;
        }
        let digit = match character {
            b'0'..=b'9' => character - b'0',
            b'a'..=b'f' => character - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] = (bytes[digits / 2] << 4) | digit;
        digits += 1;
    }
    Some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Text(text) => f.write_str(text),
            Form::Uuid(bytes) => {
                let text = print_uuid(bytes);
                f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
            }
        }
    }
}

/// The canonical spelling of a UUID: what [`parse_uuid`] reads.
fn print_uuid(bytes: &[u8; 16]) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut place = 0;
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            place += 1;
        }
        text[place] = DIGITS[usize::from(byte >> 4)];
        text[place + 1] = DIGITS[usize::from(byte & 15)];
        place += 2;
    }
    text
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::new(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_uid_prints_as_given() {
        for text in [
            "c7ab034e-bb56-40e8-8304-1b758b94cfdc",
            "C7AB034E-BB56-40E8-8304-1B758B94CFDC",
            "c7ab034ebb5640e883041b758b94cfdc",
            "vm-1",
        ] {
            assert_eq!(Uid::new(text).unwrap().to_string(), text);
        }
        for text in ["", "a b", "ü", "a\n", &"x".repeat(UID_MAX_BYTES + 1)] {
            assert_eq!(Uid::new(text), Err(InvalidUid));
        }
    }

    #[test]
    fn a_uid_is_small() {
        assert!(size_of::<Uid>() <= 24);
    }
}
