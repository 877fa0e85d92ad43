//! Values that are written as TOML strings in the file, and absent values.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// A text, also if it was written without quotes because it looks like a number.
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl de::Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.to_owned()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }
}

/// For `#[serde(with = "blank")]`: an empty string means no value.
pub mod blank {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use super::Text;

    /// An empty string for no value.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: Serialize, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => value.serialize(serializer),
            None => serializer.serialize_str(""),
        }
    }

    /// No value for an empty string.
    ///
    /// # Errors
    /// When the text cannot be read as the value.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let Text(text) = Text::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(de::Error::custom)
    }
}

/// The text with the passwords of URLs (`scheme://user:password@host`) replaced by `***`.
#[must_use]
pub fn redact(text: &str) -> String {
    let redact_one = |url: &str| -> Option<String> {
        let (scheme, rest) = url.split_once("://")?;
        let (user_info, host) = rest.rsplit_once('@')?;
        // A user name without a password is a token, as in NATS.
        let shown = user_info
            .split_once(':')
            .map_or("***".to_owned(), |(user, _)| format!("{user}:***"));
        Some(format!("{scheme}://{shown}@{host}"))
    };
    let urls = text
        .split(',')
        .map(|url| redact_one(url).unwrap_or_else(|| url.to_owned()));
    urls.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn passwords_of_urls_are_not_shown() {
        for (text, shown) in [
            ("nats://a:4222", "nats://a:4222"),
            (
                "nats://me:pw@a:4222,tls://tok@b",
                "nats://me:***@a:4222,tls://***@b",
            ),
            ("nats://me:p@w@a", "nats://me:***@a"),
            ("plain, text", "plain, text"),
        ] {
            assert_eq!(redact(text), shown);
        }
    }
}
