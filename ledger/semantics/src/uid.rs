//! The identity of an object.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The longest uid that is accepted, in bytes.
pub const UID_MAX_BYTES: usize = 128;

/// The `metadata.uid` of an object, or any other identifier that a producer uses for its objects.
///
/// Kubernetes' uids are UUIDs, and there may be millions of them: those in canonical spelling are stored in 16 bytes.
/// Every uid prints exactly as it was given.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String", inline, description = "")]
pub struct Uid(Form);

/// The stored form of a uid.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// A UUID in canonical spelling.
    Uuid([u8; 16]),
    /// Any other text.
    Text(Box<str>),
}

/// Without the discriminant and the length, which distinguish few uids: tables of them are read several times for each
/// decision.
impl Hash for Form {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Uuid(bytes) => state.write_u128(u128::from_ne_bytes(*bytes)),
            Self::Text(text) => text.hash(state),
        }
    }
}

/// A uid that is empty, longer than [`UID_MAX_BYTES`], or holds characters other than printable ASCII.
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
    pub const fn from_uuid(bytes: [u8; 16]) -> Self {
        Self(Form::Uuid(bytes))
    }

    /// The number of allocated bytes; zero for a UUID.
    pub fn text_len(&self) -> usize {
        match &self.0 {
            Form::Uuid(_) => 0,
            Form::Text(text) => text.len(),
        }
    }

    /// Calls `read` with the bytes of the text, which is ASCII.
    pub fn with_text<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        match &self.0 {
            Form::Uuid(bytes) => read(&print_uuid(bytes)),
            Form::Text(text) => read(text.as_bytes()),
        }
    }

    /// The stored form.
    pub const fn form(&self) -> &Form {
        &self.0
    }

    /// The uid of a stored form, which [`Self::form`] returned. It is not checked again.
    pub const fn from_form(form: Form) -> Self {
        Self(form)
    }
}

/// The offsets of the digits of each byte of a UUID, and those of its hyphens.
const DIGITS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The value of each character as a digit; above 15 if it is none.
const VALUES: [u8; 256] = {
    let mut values = [u8::MAX; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

/// Only the canonical spelling (lower case, hyphens at their places) is a UUID here, so that it prints back
/// unchanged.
fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.try_into().ok()?;
    let mut bytes = [0_u8; 16];
    let mut digits = 0;
    for (byte, place) in bytes.iter_mut().zip(DIGITS) {
        let high = VALUES[usize::from(text[place])];
        let low = VALUES[usize::from(text[place + 1])];
        digits |= high | low;
        *byte = (high << 4) | low;
    }
    let is_uuid = digits < 16 && HYPHENS.iter().all(|place| text[*place] == b'-');
    is_uuid.then_some(bytes)
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

/// The canonical spelling of a UUID, the inverse of [`parse_uuid`].
fn print_uuid(bytes: &[u8; 16]) -> [u8; 36] {
    const CHARACTERS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    for (byte, place) in bytes.iter().zip(DIGITS) {
        text[place] = CHARACTERS[usize::from(byte >> 4)];
        text[place + 1] = CHARACTERS[usize::from(byte & 15)];
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
            "c7ab034e-bb56-40e8-8304-1b758b94cfdg",
            "c7ab034e-bb56-40e8-8304_1b758b94cfdc",
            "c7ab034e-bb56-40e8-830411b758b94cfdc",
            "00000000-ffff-9999-aaaa-0123456789ab",
            "vm-1",
        ] {
            assert_eq!(Uid::new(text).unwrap().to_string(), text);
        }
        for (text, is_small) in [
            ("c7ab034e-bb56-40e8-8304-1b758b94cfdc", true),
            ("c7ab034e-bb56-40e8-8304-1b758b94cfdC", false),
            ("c7ab034e-bb56-40e8-8304_1b758b94cfdc", false),
        ] {
            assert_eq!(Uid::new(text).unwrap().text_len() == 0, is_small);
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
