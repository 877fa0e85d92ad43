//! The encoder, the decoder, and the primitives of the format.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::{slice, sync::Arc};

use super::{DecodeError, names::Names};
use bincode::config::{Configuration, LittleEndian, Varint};
use bincode::error::EncodeError;
use quota_semantics::Name;

/// Most names per piece: bounds the memory that a damaged count can make the decoder reserve.
const NAMES_MAX: u32 = 1 << 24;

/// Initial capacity of a body: enough for a few entries.
const FIRST_BYTES: usize = 512;

/// The most items of a list for which memory is reserved before they are decoded, since a damaged count can be large.
pub(super) const RESERVED_MAX: usize = 64;

/// Each value that bincode decodes here is one number, so a limit of bytes would have no effect.
const CONFIG: Configuration<LittleEndian, Varint> = bincode::config::standard();

/// A value with an encoding in the format.
pub(crate) trait Wire: Sized {
    /// Appends the value.
    fn put(&self, writer: &mut Writer);
    /// Reads the value.
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// A value whose encoding begins with a tag.
pub(crate) trait Tagged {
    /// The tag.
    fn tag(&self) -> u8;
}

/// The largest number that bincode encodes as a single byte, and the bytes before numbers of two and of four.
const ONE_BYTE_MAX: u8 = 250;
const TWO_BYTES: u8 = 251;
const FOUR_BYTES: u8 = 252;

/// Collects a body and the names that it refers to.
pub(crate) struct Writer {
    names: Names,
    body: Vec<u8>,
}

impl Default for Writer {
    fn default() -> Self {
        Self::with_room(FIRST_BYTES)
    }
}

struct Body<'a>(&'a mut Vec<u8>);

impl bincode::enc::write::Writer for Body<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

impl Writer {
    /// A writer with an initial capacity of the body in bytes.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self { names: Names::default(), body: Vec::with_capacity(bytes) }
    }

    #[inline(never)]
    fn plain(&mut self, value: u64) {
        bincode::encode_into_writer(value, Body(&mut self.body), CONFIG)
            .expect("writing plain data to memory does not fail");
    }

    /// As [`Self::plain`], with a fast path for the small numbers that are most frequent.
    #[inline]
    fn number(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(byte @ ..=ONE_BYTE_MAX) => self.body.push(byte),
            _ => self.longer(number),
        }
    }

    /// A number of more than one byte, in bincode's encoding: for two and four bytes bincode itself takes much longer.
    fn longer(&mut self, number: u64) {
        match (u16::try_from(number), u32::try_from(number)) {
            (Ok(number), _) => {
                let [a, b] = number.to_le_bytes();
                self.body.extend_from_slice(&[TWO_BYTES, a, b]);
            }
            (_, Ok(number)) => {
                let [a, b, c, d] = number.to_le_bytes();
                self.body.extend_from_slice(&[FOUR_BYTES, a, b, c, d]);
            }
            _ => self.plain(number),
        }
    }

    /// A signed number between single bytes, all at once if the number takes one byte, too.
    #[inline]
    pub(super) fn signed_between(&mut self, first: u8, number: i64, last: [u8; 2]) {
        let number = zigzag(number);
        match u8::try_from(number) {
            Ok(byte @ ..=ONE_BYTE_MAX) => {
                self.body.extend_from_slice(&[first, byte, last[0], last[1]]);
            }
            _ => {
                self.body.push(first);
                self.longer(number);
                self.body.extend_from_slice(&last);
            }
        }
    }

    /// The number of items or bytes that follow.
    #[inline]
    pub(crate) fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.count(text.len());
        self.body.extend_from_slice(text.as_bytes());
    }

    /// The present length of the body in bytes.
    pub(crate) fn body_len(&self) -> usize {
        self.body.len()
    }

    /// The finished piece: names, then body.
    pub(crate) fn finish(self) -> Vec<u8> {
        const PER_NAME: usize = 3;
        let names = self.names.list();
        let text = names.iter().map(|name| name.len() + PER_NAME);
        let room = text.sum::<usize>() + PER_NAME + self.body.len();
        let mut head = Writer::with_room(room);
        head.count(names.len());
        names.iter().for_each(|name| head.text(name));
        head.body.extend_from_slice(&self.body);
        head.body
    }
}

/// Decodes a piece.
pub(crate) struct Reader<'a> {
    names: Vec<Name>,
    rest: slice::Iter<'a, u8>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Self { names: Vec::new(), rest: bytes.iter() };
        let count = u32::take(&mut reader)?;
        if count > NAMES_MAX {
            return Err(DecodeError(format!("{count} names in one piece")));
        }
        for _ in 0..count {
            let name = reader.text()?;
            reader.names.push(Name::from(name));
        }
        Ok(reader)
    }

    #[inline(never)]
    fn plain<T: bincode::Decode<()>>(&mut self) -> Result<T, DecodeError> {
        let rest = self.rest.as_slice();
        let (value, read) = bincode::decode_from_slice(rest, CONFIG).map_err(explain)?;
        self.rest = rest[read..].iter();
        Ok(value)
    }

    /// The next number, if it is encoded in one byte.
    #[inline]
    fn short(&mut self) -> Option<u8> {
        let byte = *self.rest.as_slice().first().filter(|byte| **byte <= ONE_BYTE_MAX)?;
        self.rest.next();
        Some(byte)
    }

    /// The next number, if it takes more than one byte; see [`Writer::longer`].
    fn longer<T: bincode::Decode<()> + From<u32>>(&mut self) -> Result<T, DecodeError> {
        let (number, rest) = match *self.rest.as_slice() {
            [TWO_BYTES, a, b, ref rest @ ..] => (u16::from_le_bytes([a, b]).into(), rest),
            [FOUR_BYTES, a, b, c, d, ref rest @ ..] => (u32::from_le_bytes([a, b, c, d]), rest),
            _ => return self.plain(),
        };
        self.rest = rest.iter();
        Ok(number.into())
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, DecodeError> {
        self.rest.next().copied().ok_or_else(ends_early)
    }

    fn text_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.count()?;
        let (bytes, rest) = self.rest.as_slice().split_at(count);
        self.rest = rest.iter();
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.text_bytes()?).map_err(|error| DecodeError(error.to_string()))
    }

    /// The number of items that follow. Each takes at least one byte, so a damaged count is detected here.
    pub(crate) fn count(&mut self) -> Result<usize, DecodeError> {
        let count = u64::take(self)?;
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(too_many(count, self.rest.len())),
        }
    }

    /// Checks that no bytes are left over.
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.rest.len() == 0 {
            return Ok(());
        }
        Err(DecodeError(format!("{} bytes too many", self.rest.len())))
    }
}

#[cold]
fn ends_early() -> DecodeError {
    DecodeError("bytes end early".into())
}

#[cold]
fn too_many(count: u64, left: usize) -> DecodeError {
    DecodeError(format!("{count} items claimed, {left} bytes left"))
}

/// The error for a tag that a type does not have.
#[cold]
pub(crate) fn no_variant(of: &str, tag: u8) -> DecodeError {
    DecodeError(format!("{of}: no variant {tag}"))
}

#[cold]
fn no_name(number: u32) -> DecodeError {
    DecodeError(format!("no name {number}"))
}

fn explain(error: bincode::error::DecodeError) -> DecodeError {
    DecodeError(error.to_string())
}

macro_rules! number {
    ($($type:ty),*) => { $(
        impl Wire for $type {
            #[inline]
            fn put(&self, writer: &mut Writer) {
                writer.number(u64::from(*self));
            }
            #[inline]
            fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match reader.short() {
                    Some(byte) => Ok(byte.into()),
                    None => reader.longer(),
                }
            }
        }
    )* };
}
number!(u32, u64);

/// As in bincode: 0, -1, 1, -2, … are encoded as 0, 1, 2, 3, ….
const fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

impl Wire for i64 {
    #[inline]
    fn put(&self, writer: &mut Writer) {
        writer.number(zigzag(*self));
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = u64::take(reader)?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

impl Wire for u8 {
    #[inline]
    fn put(&self, writer: &mut Writer) {
        writer.body.push(*self);
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.byte()
    }
}

impl Wire for i8 {
    #[inline]
    fn put(&self, writer: &mut Writer) {
        writer.body.push(self.cast_unsigned());
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.byte().map(u8::cast_signed)
    }
}

impl Wire for bool {
    #[inline]
    fn put(&self, writer: &mut Writer) {
        writer.body.push(u8::from(*self));
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DecodeError(format!("{other} is neither true nor false"))),
        }
    }
}

impl Wire for [u8; 16] {
    #[inline]
    fn put(&self, writer: &mut Writer) {
        writer.body.extend_from_slice(self);
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let Some((bytes, rest)) = reader.rest.as_slice().split_first_chunk() else {
            return Err(ends_early());
        };
        reader.rest = rest.iter();
        Ok(*bytes)
    }
}

impl Wire for Name {
    // A call takes nearly as long.
    #[inline(always)]
    fn put(&self, writer: &mut Writer) {
        writer.names.number(self).put(writer);
    }
    #[inline]
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = u32::take(reader)?;
        let name = usize::try_from(number).ok().and_then(|index| reader.names.get(index));
        name.cloned().ok_or_else(|| no_name(number))
    }
}

impl Wire for Box<str> {
    fn put(&self, writer: &mut Writer) {
        writer.text(self);
    }
    /// The copy is checked, since that is aligned: words of it are checked at once.
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let text = String::from_utf8(reader.text_bytes()?.to_vec());
        text.map(Into::into).map_err(|error| DecodeError(error.to_string()))
    }
}

impl Wire for String {
    fn put(&self, writer: &mut Writer) {
        writer.text(self);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.text().map(Into::into)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, writer: &mut Writer) {
        self.is_some().put(writer);
        if let Some(value) = self {
            value.put(writer);
        }
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        bool::take(reader)?.then(|| T::take(reader)).transpose()
    }
}

macro_rules! pointer {
    ($($pointer:ident),*) => { $(
        impl<T: Wire> Wire for $pointer<T> {
            fn put(&self, writer: &mut Writer) {
                (**self).put(writer);
            }
            fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                T::take(reader).map($pointer::new)
            }
        }
    )* };
}
pointer!(Box, Arc);

macro_rules! sequence {
    ($($list:ident: $push:ident),*) => { $(
        impl<T: Wire> Wire for $list<T> {
            fn put(&self, writer: &mut Writer) {
                writer.count(self.len());
                for item in self {
                    item.put(writer);
                }
            }
            fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let count = reader.count()?;
                let mut list = $list::with_capacity(count.min(RESERVED_MAX));
                for _ in 0..count {
                    list.$push(T::take(reader)?);
                }
                Ok(list)
            }
        }
    )* };
}
sequence!(Vec: push, VecDeque: push_back);

impl<T: Wire + Ord> Wire for BTreeSet<T> {
    fn put(&self, writer: &mut Writer) {
        writer.count(self.len());
        for item in self {
            item.put(writer);
        }
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        (0..reader.count()?).map(|_| T::take(reader)).collect()
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn put(&self, writer: &mut Writer) {
        writer.count(self.len());
        for (key, value) in self {
            key.put(writer);
            value.put(writer);
        }
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.count()? {
            0 => Ok(Self::new()),
            count => (0..count).map(|_| Ok((K::take(reader)?, V::take(reader)?))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded_as_by_bincode() {
        let borders = [0, 250, 251, 252, 255, 256, 65_535, 65_536, 0xffff_ffff, 0x1_0000_0000];
        for number in borders.into_iter().chain([u64::MAX]) {
            let mut writer = Writer::default();
            number.put(&mut writer);
            let encoded = bincode::encode_to_vec(number, CONFIG).unwrap();
            assert_eq!(writer.body, encoded);
            let piece = writer.finish();
            let mut reader = Reader::new(&piece).unwrap();
            assert_eq!(u64::take(&mut reader).unwrap(), number);
            reader.finish().unwrap();
            for end in 1..piece.len() {
                let mut reader = Reader::new(&piece[..end]).unwrap();
                assert!(u64::take(&mut reader).is_err(), "{number}, {end} bytes");
            }
            let mut reader = Reader::new(&piece).unwrap();
            let fits = u32::try_from(number).ok();
            assert_eq!(u32::take(&mut reader).ok(), fits);
        }
    }
}
