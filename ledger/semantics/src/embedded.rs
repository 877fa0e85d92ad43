//! A check of untrusted JSON, before it is read as a [`serde_json::Value`].

use std::{borrow::Cow, fmt};

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Below this key, serde_json reads a text as JSON of its own when it reads a [`serde_json::Value`], each time with a
/// new limit of depth: a short body could nest without end, and overflow the stack.
pub const EMBEDDED: &str = "$serde_json::private::RawValue";

/// Refuses JSON in which a text would be read as further JSON.
///
/// # Errors
/// If it has the key [`EMBEDDED`]. Other errors are left to the reader of the JSON.
pub fn refuse_embedded(json: &[u8]) -> Result<(), serde_json::Error> {
    match serde_json::from_slice(json) {
        Err(error) if error.is_data() => Err(error),
        Ok(Plain) | Err(_) => Ok(()),
    }
}

/// Reads untrusted JSON as a [`Value`].
///
/// # Errors
/// It is no JSON, or a text in it would be read as further JSON.
pub fn plain_value(json: &[u8]) -> Result<Value, serde_json::Error> {
    refuse_embedded(json)?;
    serde_json::from_slice(json)
}

/// Any JSON without the key.
struct Plain;

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Plain {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while let Some(Self) = items.next_element()? {}
        Ok(self)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        while let Some(key) = fields.next_key::<Cow<'_, str>>()? {
            if key == EMBEDDED {
                return Err(de::Error::custom(format_args!("a field cannot be named {EMBEDDED}")));
            }
            let Self = fields.next_value()?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JSON that nests about 250 levels in each of these texts within texts.
    fn nested(texts: usize) -> String {
        let mut json = "1".to_owned();
        for _ in 0..texts {
            // Escaped as \\u005c, a backslash of the text within costs five bytes more, not twice as many.
            let escaped = json.replace('\\', "\\u005c").replace('"', "\\u0022");
            let (open, close) = ("[".repeat(126), "]".repeat(126));
            json = format!("{open}{{\"{EMBEDDED}\":\"{escaped}\"}}{close}");
        }
        json
    }

    #[test]
    fn texts_are_not_read_as_json() {
        // Read as a value, it would overflow the stack.
        let deep = nested(300);
        assert!(deep.len() < 1 << 20);
        assert!(refuse_embedded(deep.as_bytes()).is_err());
        let spelled = br#"{"a":[{"\u0024serde_json::private::RawValue":"1"}]}"#;
        assert!(refuse_embedded(spelled).is_err());
        for other in [r#"{"a":[1,-1,1.5,true,null,"x",{}]}"#, "{", "[1,]", "", "nul"] {
            assert!(refuse_embedded(other.as_bytes()).is_ok(), "{other}");
        }
    }
}
