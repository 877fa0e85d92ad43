//! Quantities in JSON: written as strings that parse to the same quantity; read from strings, numbers and null.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use super::{Format, ParseError, Quantity};

impl Quantity {
    /// Parses a JSON token as Kubernetes does: the text of a number or of a string, without white space around it and
    /// with its escapes left as they are; `null` is zero without a family. The result is canonical.
    ///
    /// # Errors
    /// If the text is not a quantity, or the token is neither a number, a string nor null.
    pub fn from_json_token(token: &str) -> Result<Self, ParseError> {
        Self::spelled(token).map(Self::canonical)
    }

    /// As [`Self::from_json_token`], with an unusual spelling kept.
    fn spelled(token: &str) -> Result<Self, ParseError> {
        if token == "null" {
            return Ok(Self::new(0, Format::Unset));
        }
        let inner = token
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        inner.unwrap_or(token).trim().parse()
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.exact())
    }
}

/// Only for JSON text and `serde_json::Value`: the token itself is needed, because `1.50` and `1e3`
/// mean more than their floating-point numbers. So not inside `#[serde(flatten)]` or untagged enums.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let token = Box::<RawValue>::deserialize(deserializer)?;
        Self::spelled(token.get()).map_err(de::Error::custom)
    }
}
