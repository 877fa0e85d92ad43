//! Values of the configuration with a unit: numbers of bytes. Periods of time are `quota_semantics::Period`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes, written as in `"64MiB"`, `"10MB"` or `1024`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(u64);

/// Largest first, so that a size is printed in the largest unit that divides it.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

impl Size {
    /// A size in bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size in MiB.
    pub const fn from_mib(mebibytes: u32) -> Self {
        Self((mebibytes as u64) << 20)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes as `usize`, clamped to its maximum.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A text that is not a [`Size`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a number of bytes such as \"64MiB\", \"10MB\", 1024: {0:?}")]
pub struct ParseSizeError(String);

impl FromStr for Size {
    type Err = ParseSizeError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = text[digits.len()..].trim_start();
        let factor = match unit {
            "" => Some(1),
            _ => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor),
        };
        factor
            .zip(digits.parse::<u64>().ok())
            .and_then(|(factor, number)| number.checked_mul(factor))
            .filter(|bytes| i64::try_from(*bytes).is_ok())
            .map(Self)
            .ok_or_else(|| ParseSizeError(text.to_owned()))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = UNITS
            .into_iter()
            .find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor))
            .unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

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
pub fn redact(text: &str) -> String {
    let words = text.split_inclusive(|character: char| {
        character.is_whitespace() || "\"'`<>".contains(character)
    });
    words.map(redact_word).collect()
}

/// The same for a list of addresses that may lack a scheme, separated by commas.
pub fn redact_addresses(addresses: &str) -> String {
    let redact_one = |address: &str| match (address.contains("://"), address.rsplit_once('@')) {
        (false, Some((user_info, host))) => format!("{}@{host}", user_of(user_info)),
        _ => redact(address),
    };
    // Commas within a password do not matter: its remainder has no scheme, but is before an `@` as well.
    match addresses.contains("://") {
        true => redact(addresses),
        false => addresses.split(',').map(redact_one).collect::<Vec<_>>().join(","),
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
    format!("{before}{scheme}{shown}{host}{}{others}", without_values(secrets))
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
    use super::{redact, redact_addresses, *};

    #[test]
    fn a_size_reads_what_it_prints() {
        for (text, printed, bytes) in [
            ("64MiB", "64MiB", 64 << 20),
            ("64 MiB", "64MiB", 64 << 20),
            ("1024", "1KiB", 1024),
            ("1500kB", "1500kB", 1_500_000),
            ("3000000000B", "3GB", 3_000_000_000),
            ("0", "0B", 0),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.bytes(), bytes, "{text}");
            assert_eq!(size.to_string(), printed);
            assert_eq!(printed.parse(), Ok(size));
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "MiB", "-1", "1.5MiB", "1 mib", "16777216TiB", "99999999999999999999"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn secrets_of_urls_are_not_shown() {
        for (text, shown) in [
            ("nats://a:4222", "nats://a:4222"),
            ("nats://me:pw@a:4222,tls://tok@b", "nats://me:***@a:4222,tls://***@b"),
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
