//! Splits a payload into events.

use std::{fmt, ops::Range};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::Fault;

/// Most events of an array, since the position of each has to be kept.
const ARRAY_MAX: usize = 1 << 20;

/// The positions of the unread events.
#[derive(Debug)]
pub(super) enum Values {
    /// One value, on any number of lines.
    Whole(Option<Range<usize>>),
    /// One value per line.
    Lines { offset: usize, line: u64 },
    /// The elements of an array.
    Elements { places: std::vec::IntoIter<Range<usize>>, next: u64 },
}

impl Values {
    /// Splits a payload; or says why it cannot be read at all.
    pub(super) fn split(payload: &Bytes) -> (Self, Option<Fault>) {
        let start = payload.len() - payload.trim_ascii_start().len();
        if payload.get(start) == Some(&b'[') {
            return match serde_json::from_slice::<Elements<'_>>(payload) {
                Ok(elements) => {
                    (Self::Elements { places: elements.places(payload).into_iter(), next: 1 }, None)
                }
                Err(error) => (Self::Whole(None), Some(error.into())),
            };
        }
        if is_one_value_on_many_lines(&payload[start..]) {
            return (Self::whole(payload), None);
        }
        (Self::Lines { offset: 0, line: 0 }, None)
    }

    /// Treats the payload as one value.
    pub(super) const fn whole(payload: &Bytes) -> Self {
        Self::Whole(Some(0..payload.len()))
    }

    /// The position of the next value, and its line (or its index in the array) from 1.
    pub(super) fn next(&mut self, payload: &[u8]) -> Option<(u64, Range<usize>)> {
        match self {
            Self::Whole(place) => place.take().map(|place| (1, place)),
            Self::Elements { places, next } => {
                let place = places.next()?;
                *next += 1;
                Some((*next - 1, place))
            }
            Self::Lines { offset, line } => loop {
                let rest = payload.get(*offset..).filter(|rest| !rest.is_empty())?;
                let start = *offset;
                let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                *offset = start + length + 1;
                *line += 1;
                if !rest[..length].trim_ascii().is_empty() {
                    return Some((*line, start..start + length));
                }
            },
        }
    }

    /// The position of the remainder, which is consumed.
    pub(super) fn rest(&mut self, payload: &[u8]) -> Option<(u64, Range<usize>)> {
        let (line, first) = self.next(payload)?;
        let last = match self {
            Self::Elements { places, .. } => places.next_back().map_or(first.end, |last| last.end),
            Self::Whole(_) | Self::Lines { .. } => payload.len(),
        };
        *self = Self::Whole(None);
        Some((line, first.start..last))
    }
}

/// Whether a payload is one pretty-printed value.
fn is_one_value_on_many_lines(payload: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'\n', payload) else {
        return false;
    };
    let ends_early =
        |text| serde_json::from_slice::<IgnoredAny>(text).is_err_and(|error| error.is_eof());
    ends_early(&payload[..end]) && serde_json::from_slice::<IgnoredAny>(payload).is_ok()
}

struct Elements<'a>(Vec<&'a str>);

impl Elements<'_> {
    fn places(&self, payload: &[u8]) -> Vec<Range<usize>> {
        let start = payload.as_ptr() as usize;
        let place = |text: &&str| {
            let offset = text.as_ptr() as usize - start;
            offset..offset + text.len()
        };
        self.0.iter().map(place).collect()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Elements<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Vec<&'de str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of events")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut elements: A,
            ) -> Result<Self::Value, A::Error> {
                let mut texts = Vec::new();
                while let Some(element) = elements.next_element::<&'de RawValue>()? {
                    if texts.len() == ARRAY_MAX {
                        return Err(A::Error::custom(format_args!("more than {ARRAY_MAX} events")));
                    }
                    texts.push(element.get());
                }
                Ok(texts)
            }
        }
        deserializer.deserialize_seq(Collect).map(Self)
    }
}
