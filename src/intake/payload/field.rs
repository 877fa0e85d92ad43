//! A field of an event, of any type.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor},
};
use serde_json::value::RawValue;

use super::text::Text;

/// A field of an object.
pub(super) type Member<'a> = (Text<'a>, &'a RawValue);

/// A value whose type is checked only when the value is used.
#[derive(Debug)]
pub(super) enum Field<'a> {
    /// A string; borrowed from the payload unless it has escapes.
    Text(Cow<'a, str>),
    Number(u64),
    Flag(bool),
    /// An object with unparsed values.
    Object(Vec<Member<'a>>),
    /// A type that no field has.
    Other(Unexpected<'static>),
}

impl Field<'_> {
    pub(super) fn text(&self) -> Result<&str, serde_json::Error> {
        match self {
            Self::Text(text) => Ok(text),
            _ => Err(self.is_not("a string")),
        }
    }

    pub(super) fn flag(&self) -> Result<bool, serde_json::Error> {
        match self {
            Self::Flag(flag) => Ok(*flag),
            _ => Err(self.is_not("a boolean")),
        }
    }

    pub(super) fn object(&self) -> Result<&[Member<'_>], serde_json::Error> {
        match self {
            Self::Object(members) => Ok(members),
            _ => Err(self.is_not("a map")),
        }
    }

    fn is_not(&self, expected: &str) -> serde_json::Error {
        let found = match self {
            Self::Text(text) => Unexpected::Str(text),
            Self::Number(number) => Unexpected::Unsigned(*number),
            Self::Flag(flag) => Unexpected::Bool(*flag),
            Self::Object(_) => Unexpected::Map,
            Self::Other(found) => *found,
        };
        serde_json::Error::invalid_type(found, &expected)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Field<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Field::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Field::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Field::Number(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Field::Other(Unexpected::Signed(number)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Field::Other(Unexpected::Float(number)))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(Field::Flag(flag))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Other(Unexpected::Seq))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Field::Object(members))
    }
}
