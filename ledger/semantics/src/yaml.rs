//! Objects in YAML whose amounts are kept as they are written. The caller provides the YAML parser.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// An object as JSON. The amounts of a quota (`spec.hard`, `status.hard`, `status.used`) are strings with their exact
/// text: a JSON number would not hold every amount.
#[derive(Clone, Debug, PartialEq)]
pub struct Object(pub Value);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Location::Elsewhere.deserialize(deserializer).map(Self)
    }
}

/// The path of a value in an object.
#[derive(Clone, Copy)]
enum Location {
    Elsewhere,
    /// Below `spec` or `status`.
    Part,
    /// Below `hard` or `used` of `spec` or `status`.
    Amounts,
}

impl Location {
    fn below(self, key: &str) -> Self {
        match (self, key) {
            (_, "spec" | "status") => Self::Part,
            (Self::Part, "hard" | "used") => Self::Amounts,
            _ => Self::Elsewhere,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Location {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Location {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Self::Elsewhere)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let value = match self {
                Self::Amounts => fields.next_value::<Option<String>>()?.into(),
                _ => fields.next_value_seed(self.below(&key))?,
            };
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Value {
        serde_saphyr::from_str::<Object>(text).unwrap().0
    }

    #[test]
    fn amounts_are_as_they_are_written() {
        let quota = read(
            "metadata: {labels: {a: b}, generation: 3}\n\
             spec:\n  hard: {a: 1000000000000000000001, b: 123456789.1234567891, c: '1', d: 5, e: 1e21, f: null}\n  \
             scopes: [x]\nstatus: {used: {a: 18446744073709551617}}\n",
        );
        assert_eq!(
            quota,
            json!({
                "metadata": {"labels": {"a": "b"}, "generation": 3},
                "spec": {
                    "hard": {
                        "a": "1000000000000000000001", "b": "123456789.1234567891", "c": "1", "d": "5", "e": "1e21",
                        "f": null,
                    },
                    "scopes": ["x"],
                },
                "status": {"used": {"a": "18446744073709551617"}},
            })
        );
    }

    #[test]
    fn everything_else_is_as_it_always_was() {
        let text = "a: 1\nhard: {x: 1, y: {z: [1.5, true, ~, -3]}}\nitems: [{spec: {used: [1], other: 2}}]\n";
        assert_eq!(read(text), serde_saphyr::from_str::<Value>(text).unwrap());
        assert!(serde_saphyr::from_str::<Object>("a: 1\na: 2").is_err());
        assert!(serde_saphyr::from_str::<Object>("spec: {hard: {a: {b: 1}}}").is_err());
    }
}
