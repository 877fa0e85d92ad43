//! Short, immutable text: names of namespaces, resources, quotas, principals.

mod known;

use std::{
    borrow::{Borrow, Cow},
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use known::Known;

/// A name: cheap to clone, compared by its text.
#[derive(Clone, JsonSchema)]
#[schemars(with = "String", inline, description = "")]
pub struct Name(Text);

/// A text has one form only, so that two known names are the same if their numbers are.
#[derive(Clone)]
enum Text {
    Known(Known),
    Other(Arc<str>),
}

impl Name {
    /// The number of a name that nearly all objects have in common, below [`Self::KNOWN`].
    #[inline]
    pub const fn known(&self) -> Option<usize> {
        match &self.0 {
            Text::Known(known) => Some(known.number()),
            Text::Other(_) => None,
        }
    }

    /// The number of names that have a number.
    pub const KNOWN: usize = known::TEXTS.len();

    /// The text of the name.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Known(known) => known.text(),
            Text::Other(text) => text,
        }
    }

    /// The number of the thing that a known name is for, below 128; see [`Self::bare`].
    #[inline]
    pub const fn thing(&self) -> Option<u8> {
        match &self.0 {
            Text::Known(known) => Some(known.thing()),
            Text::Other(_) => None,
        }
    }

    /// The thing that a resource name is for: the same for `cpu`, `requests.cpu` and `limits.cpu`, and for `pods` and
    /// `count/pods`.
    #[inline]
    pub fn bare(&self) -> &str {
        match &self.0 {
            Text::Known(known) => known.bare(),
            Text::Other(text) => known::bare(text),
        }
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::from("")
    }
}

impl PartialEq for Name {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Text::Known(one), Text::Known(other)) => one == other,
            (Text::Other(one), Text::Other(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Text::Known(one), Text::Known(other)) => one.cmp(other),
            (Text::Other(one), Text::Other(other)) if Arc::ptr_eq(one, other) => Ordering::Equal,
            _ => self.as_str().cmp(other.as_str()),
        }
    }
}

impl Hash for Name {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(match Known::find(text) {
            Some(known) => Text::Known(known),
            None => Text::Other(Arc::from(text)),
        })
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self::from(&*text)
    }
}

impl From<Cow<'_, str>> for Name {
    fn from(text: Cow<'_, str>) -> Self {
        Self::from(&*text)
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Name, E> {
                Ok(Name::from(text))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_same_thing_are_known() {
        for (name, other) in [
            ("cpu", "requests.cpu"),
            ("limits.cpu", "requests.cpu"),
            ("nvidia.com/gpu", "requests.nvidia.com/gpu"),
            ("example.com/gpu", "requests.example.com/gpu"),
            ("pods", "count/pods"),
        ] {
            let (name, other) = (Name::from(name), Name::from(other));
            assert_eq!(name.bare(), other.bare());
            assert!(name.thing() == other.thing() || name.thing().is_none());
        }
        let (cpu, memory) = (Name::from("requests.cpu"), Name::from("requests.memory"));
        assert!(cpu.bare() != memory.bare() && cpu.thing() != memory.thing());
    }

    #[test]
    fn a_name_is_small_and_compares_as_its_text_whether_it_is_known_or_not() {
        assert_eq!(size_of::<Name>(), 16);
        let texts = ["", "a", "count/pods", "cpu", "cpv", "pods", "pods.x", "requests.cpu", "zzz"];
        for one in texts {
            let name = Name::from(one);
            assert_eq!((name.as_str(), name.clone()), (one, Name::from(one.to_owned())));
            for other in texts {
                assert_eq!(name.cmp(&other.into()), one.cmp(other), "{one:?} {other:?}");
                let other_name = Name::from(other);
                assert_eq!(name == other_name, one == other, "{one:?} {other:?}");
            }
        }
    }
}
