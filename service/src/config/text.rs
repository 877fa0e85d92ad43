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

/// The text without the secrets of the URLs in it: passwords (`scheme://user:password@host`), user names without a
/// password, which are tokens for NATS, and the values of queries are replaced by `***`.
#[must_use]
pub fn redact(text: &str) -> String {
    let words = text.split_inclusive(|character: char| {
        character.is_whitespace() || "\"'`<>".contains(character)
    });
    words.map(redact_word).collect()
}

/// The same for a list of addresses that may lack a scheme, separated by commas.
#[must_use]
pub fn redact_addresses(addresses: &str) -> String {
    let redact_one = |address: &str| match (address.contains("://"), address.rsplit_once('@')) {
        (false, Some((user_info, host))) => format!("{}@{host}", user_of(user_info)),
        _ => redact(address),
    };
    // Commas within a password do not matter: its remainder has no scheme, but is before an `@` as well.
    match addresses.contains("://") {
        true => redact(addresses),
        false => addresses
            .split(',')
            .map(redact_one)
            .collect::<Vec<_>>()
            .join(","),
    }
}

/// A word, which may be several URLs that are separated by other characters than white space and quotes.
fn redact_word(word: &str) -> String {
    let Some(at) = word.find("://") else {
        return match word.rsplit_once('@') {
            Some((user_info, host)) if user_info.contains(':') => {
                format!("{}@{host}", user_of(user_info))
            }
            _ => word.to_owned(),
        };
    };
    let (scheme, rest) = word.split_at(at + "://".len());
    // Another address may be before it.
    let (before, scheme) = match scheme.rsplit_once(',') {
        Some((before, scheme)) => (format!("{},", redact_addresses(before)), scheme),
        None => (String::new(), scheme),
    };
    // A comma ends the URL where another one begins.
    let next = rest.find("://").and_then(|next| rest[..next].rfind(','));
    let (url, others) = next.map_or((rest, ""), |next| rest.split_at(next));
    let (shown, host) = match url.rsplit_once('@') {
        Some((user_info, host)) => (format!("{}@", user_of(user_info)), host),
        None => (String::new(), url),
    };
    let end = host.find(['?', '#']).unwrap_or(host.len());
    let (host, secrets) = host.split_at(end);
    let others = match others.strip_prefix(',') {
        Some(others) => format!(",{}", redact_word(others)),
        None => String::new(),
    };
    format!(
        "{before}{scheme}{shown}{host}{}{others}",
        without_values(secrets)
    )
}

/// What is shown of `user:password`. A user name without a password is a token, as in NATS.
fn user_of(user_info: &str) -> String {
    match user_info.split_once(':') {
        Some((user, _)) => format!("{user}:***"),
        None => "***".to_owned(),
    }
}

/// A query with its names only. What follows the word (a quote, white space) remains.
fn without_values(query: &str) -> String {
    let is_end = |character: char| character.is_whitespace() || "\"'`<>".contains(character);
    let text = query.trim_end_matches(is_end);
    let end = &query[text.len()..];
    let Some(first) = text.chars().next() else {
        return end.to_owned();
    };
    let parameters = text[first.len_utf8()..].split('&').map(|parameter| {
        let name = parameter.split_once('=').map(|(name, _)| name);
        name.map_or("***".to_owned(), |name| format!("{name}=***"))
    });
    let parameters: Vec<_> = parameters.collect();
    format!("{first}{}{end}", parameters.join("&"))
}

#[cfg(test)]
mod tests {
    use super::{redact, redact_addresses};

    #[test]
    fn secrets_of_urls_are_not_shown() {
        for (text, shown) in [
            ("nats://a:4222", "nats://a:4222"),
            (
                "nats://me:pw@a:4222,tls://tok@b",
                "nats://me:***@a:4222,tls://***@b",
            ),
            ("nats://me:p@w@a", "nats://me:***@a"),
            ("nats://me:p,w@a,nats://b", "nats://me:***@a,nats://b"),
            ("nats://me:p/w?x@a", "nats://me:***@a"),
            ("plain, text", "plain, text"),
            ("https://h/p?key=s3cret&x=1#y", "https://h/p?key=***&x=***"),
            ("https://h/p?s3cret", "https://h/p?***"),
            ("https://h/#s3cret", "https://h/#***"),
            ("https://me:pw@h/p?key=s3cret", "https://me:***@h/p?key=***"),
            (
                "invalid type: string \"http://u:pw@h/?a=b\", expected a sequence",
                "invalid type: string \"http://u:***@h/?a=***\", expected a sequence",
            ),
            ("me:pw@a:4222", "me:***@a:4222"),
            ("spiffe://cluster/apiserver", "spiffe://cluster/apiserver"),
        ] {
            assert_eq!(redact(text), shown);
        }
    }

    #[test]
    fn addresses_may_lack_a_scheme() {
        for (text, shown) in [
            ("tok@a:4222,me:pw@b,c", "***@a:4222,me:***@b,c"),
            ("nats://tok@a", "nats://***@a"),
            ("tok@a,nats://me:pw@b", "***@a,nats://me:***@b"),
            ("", ""),
        ] {
            assert_eq!(redact_addresses(text), shown);
        }
    }
}
