//! Listings, which are read object by object.
//!
//! A listing is any sequence of JSON values: lists as the API server or kubectl write them, arrays, and objects. At
//! most one object is in memory at a time, whatever the length of the listing.

use std::{
    cell::{Cell, RefCell},
    fmt,
    io::{self, Read},
};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::failure::{Failure, Outcome};

/// The maximum size of an object, in bytes.
const OBJECT_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// An object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// The place of the object, for messages.
    pub(super) place: String,
    /// The object as JSON text.
    pub(super) text: Box<str>,
}

/// Reads a listing, and passes each object to `take`. Returns the resourceVersion of the lists, if they have one: the
/// oldest of several.
///
/// A list that is one page of several is refused, but only when its `continue` is read, which may follow the items.
pub(super) fn read(input: impl Read, take: impl FnMut(Item) -> Outcome) -> Outcome<Option<u64>> {
    read_bounded(input, OBJECT_MAX_BYTES, take)
}

fn read_bounded(
    input: impl Read,
    most: u64,
    take: impl FnMut(Item) -> Outcome,
) -> Outcome<Option<u64>> {
    let reading = Reading {
        take: RefCell::new(take),
        most,
        left: Cell::new(most),
        lines: Cell::new(1),
        version: Cell::new(None),
        failure: RefCell::new(None),
    };
    let bounded = Bounded { input, most, left: &reading.left, lines: &reading.lines };
    let mut values = serde_json::Deserializer::from_reader(bounded);
    while values.end().is_err() {
        let read = Root(&reading).deserialize(&mut values);
        if let Some(failure) = reading.failure.take() {
            return Err(failure);
        }
        read.map_err(|error| Failure::general(format!("cannot read the listing: {error}")))?;
    }
    Ok(reading.version.get())
}

/// The state of reading a listing.
struct Reading<F> {
    take: RefCell<F>,
    /// The maximum size of an object, in bytes.
    most: u64,
    /// The number of bytes that may still be read before the next object.
    left: Cell<u64>,
    /// The number of the current line.
    lines: Cell<u64>,
    version: Cell<Option<u64>>,
    /// The failure of `take`, if it ended the reading.
    failure: RefCell<Option<Failure>>,
}

impl<F: FnMut(Item) -> Outcome> Reading<F> {
    fn take<E: serde::de::Error>(&self, place: String, text: Box<str>) -> Result<(), E> {
        self.left.set(self.most);
        let taken = (self.take.borrow_mut())(Item { place, text });
        taken.map_err(|failure| {
            self.failure.replace(Some(failure));
            E::custom("")
        })
    }
}

/// A reader that fails after more bytes than an object may have.
struct Bounded<'a, R> {
    input: R,
    most: u64,
    left: &'a Cell<u64>,
    lines: &'a Cell<u64>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 {
            let (most, line) = (self.most, self.lines.get());
            let wrong = format!("an object of more than {most} bytes at line {line}");
            return Err(io::Error::other(wrong));
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.input.read(&mut buffer[..most])?;
        self.left.set(left.saturating_sub(read as u64));
        let ends = buffer[..read].iter().filter(|byte| **byte == b'\n').count();
        self.lines.set(self.lines.get().saturating_add(ends as u64));
        Ok(read)
    }
}

/// A value of the listing: a list, an array, or an object.
struct Root<'a, F>(&'a Reading<F>);

impl<'de, F: FnMut(Item) -> Outcome> DeserializeSeed<'de> for Root<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Item) -> Outcome> Visitor<'de> for Root<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects, or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        let reading = self.0;
        Items { reading, item_type: None }.visit_seq(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let reading = self.0;
        let place = format!("line {}", reading.lines.get());
        let mut fields: Vec<(String, Box<RawValue>)> = Vec::new();
        let mut is_list = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                is_list = true;
                let item_type = item_type(&fields);
                map.next_value_seed(Items { reading, item_type })?;
            } else {
                fields.push((key, map.next_value()?));
            }
        }
        match is_list {
            true => end_of_list(reading, &fields),
            false => an_object(reading, place, &fields),
        }
    }
}

/// The metadata of a list.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
    remaining_item_count: Option<i64>,
    resource_version: Option<String>,
    uid: Option<IgnoredAny>,
}

fn field<'a, T: Deserialize<'a>>(fields: &'a [(String, Box<RawValue>)], name: &str) -> Option<T> {
    let (_, text) = fields.iter().find(|(key, _)| key == name)?;
    serde_json::from_str(text.get()).ok()
}

/// `apiVersion` and `kind` of the items of a list, which the items may leave out.
fn item_type(fields: &[(String, Box<RawValue>)]) -> Option<String> {
    let api_version: String = field(fields, "apiVersion")?;
    let kind: String = field(fields, "kind")?;
    let kind = kind.strip_suffix("List").filter(|kind| !kind.is_empty())?;
    let of_each = serde_json::json!({"apiVersion": api_version, "kind": kind}).to_string();
    of_each.strip_suffix('}').map(str::to_owned)
}

fn end_of_list<F, E: serde::de::Error>(
    reading: &Reading<F>,
    fields: &[(String, Box<RawValue>)],
) -> Result<(), E> {
    let refuse = |failure: Failure| {
        reading.failure.replace(Some(failure));
        Err(E::custom(""))
    };
    let kind: Option<String> = field(fields, "kind");
    if kind.as_ref().is_some_and(|kind| !kind.ends_with("List")) {
        let kind = kind.unwrap_or_default();
        let wrong = format!("a {kind} with items is no list of objects");
        return refuse(Failure::general(wrong));
    }
    let metadata: ListMeta = field(fields, "metadata").unwrap_or_default();
    let has_more = metadata.next.is_some_and(|token| !token.is_empty());
    if has_more || metadata.remaining_item_count.unwrap_or(0) > 0 {
        let failure = Failure::general("the listing is a part: the list says that there is more");
        return refuse(failure.hint("what it lacks would be taken for gone; list without a limit"));
    }
    let version = metadata.resource_version.and_then(|text| text.parse().ok());
    let before = reading.version.get();
    let oldest = [before, version].into_iter().flatten().min();
    reading.version.set(oldest);
    Ok(())
}

fn an_object<F: FnMut(Item) -> Outcome, E: serde::de::Error>(
    reading: &Reading<F>,
    place: String,
    fields: &[(String, Box<RawValue>)],
) -> Result<(), E> {
    let kind: Option<String> = field(fields, "kind");
    let metadata: ListMeta = field(fields, "metadata").unwrap_or_default();
    if kind.is_some_and(|kind| kind.ends_with("List")) && metadata.uid.is_none() {
        return Err(E::custom(format_args!("a list without items at {place}")));
    }
    let mut text = String::from("{");
    for (index, (key, value)) in fields.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let key = serde_json::to_string(key).map_err(E::custom)?;
        text.extend([comma, &key, ":", value.get()]);
    }
    text.push('}');
    reading.take(place, text.into())
}

/// The items of a list.
struct Items<'a, F> {
    reading: &'a Reading<F>,
    item_type: Option<String>,
}

impl<'de, F: FnMut(Item) -> Outcome> DeserializeSeed<'de> for Items<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Item) -> Outcome> Visitor<'de> for Items<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("items")
    }

    /// Accepts `null`, which some clients write for an empty list.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut number = 0_u64;
        self.reading.left.set(self.reading.most);
        while let Some(item) = items.next_element::<Box<RawValue>>()? {
            number = number.saturating_add(1);
            let place = format!("item {number}");
            let text = self
                .whole(&item)
                .map_err(|wrong| A::Error::custom(format_args!("{place} {wrong}")))?;
            self.reading.take(place, text)?;
        }
        Ok(())
    }
}

impl<F> Items<'_, F> {
    /// The text of an item, with the `apiVersion` and `kind` of its list if the item has none.
    fn whole(&self, item: &RawValue) -> Result<Box<str>, &'static str> {
        #[derive(Deserialize)]
        struct Head {
            kind: Option<String>,
            metadata: Option<IgnoredAny>,
            items: Option<IgnoredAny>,
        }
        let text = item.get();
        // Serde would read a list as the fields in their order.
        let fields = text.strip_prefix('{').ok_or("is no object")?;
        let head: Head = serde_json::from_str(text).map_err(|_| "is no object")?;
        let is_list = head.kind.as_ref().is_some_and(|kind| kind.ends_with("List"));
        match (&self.item_type, head.kind, head.metadata) {
            _ if is_list && head.items.is_some() => Err("is a list within a list"),
            (Some(of_each), None, Some(_)) => Ok([of_each, ",", fields].concat().into()),
            _ => Ok(text.into()),
        }
    }
}

#[cfg(test)]
mod tests;
