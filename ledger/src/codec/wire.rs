//! The two directions of the format, and the primitives.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use hashbrown::HashMap;

use super::DecodeError;
use crate::Name;

/// The most that one decoded value may claim, in bytes: far above any value that is written, far below what
/// would hurt.
const VALUE_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Names per piece: bounds what a damaged count can make us reserve.
const NAMES_MAX: u32 = 1 << 24;

const CONFIG: Configuration<LittleEndian, Varint, Limit<VALUE_MAX_BYTES>> =
    bincode::config::standard().with_limit::<VALUE_MAX_BYTES>();

/// Something that has a place in the format.
pub(crate) trait Wire: Sized {
    /// Appends the value.
    fn put(&self, writer: &mut Writer);
    /// Reads the value.
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// Collects a body and the names that it uses.
#[derive(Default)]
pub(crate) struct Writer {
    names: Vec<Name>,
    numbers: HashMap<Name, u32>,
    body: Vec<u8>,
}

impl Writer {
    fn number(&mut self, name: &Name) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.clone());
        self.numbers.insert(name.clone(), number);
        number
    }

    pub(crate) fn plain<T: bincode::Encode>(&mut self, value: T) {
        bincode::encode_into_std_write(value, &mut self.body, CONFIG)
            .expect("writing plain data to memory does not fail");
    }

    /// How long the body is so far, in bytes.
    pub(crate) fn body_len(&self) -> usize {
        self.body.len()
    }

    /// The finished piece: names, then body.
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut head = Writer::default();
        head.plain(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        for name in &self.names {
            head.plain(name.as_str());
        }
        let mut bytes = head.body;
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Walks over a piece.
pub(crate) struct Reader<'a> {
    names: Vec<Name>,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Self {
            names: Vec::new(),
            rest: bytes,
        };
        let count: u32 = reader.plain()?;
        if count > NAMES_MAX {
            return Err(DecodeError(format!("{count} names in one piece")));
        }
        for _ in 0..count {
            let name: &'a str = reader.borrowed()?;
            reader.names.push(Name::from(name));
        }
        Ok(reader)
    }

    pub(crate) fn plain<T: bincode::Decode<()>>(&mut self) -> Result<T, DecodeError> {
        let (value, read) = bincode::decode_from_slice(self.rest, CONFIG).map_err(explain)?;
        self.rest = &self.rest[read..];
        Ok(value)
    }

    pub(crate) fn borrowed(&mut self) -> Result<&'a str, DecodeError> {
        let (value, read) =
            bincode::borrow_decode_from_slice(self.rest, CONFIG).map_err(explain)?;
        self.rest = &self.rest[read..];
        Ok(value)
    }

    /// A count of items that follow; each takes at least one byte, so a damaged count is seen here.
    pub(crate) fn count(&mut self) -> Result<usize, DecodeError> {
        let count: u64 = self.plain()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(DecodeError(format!(
                "{count} items claimed, {} bytes left",
                self.rest.len()
            ))),
        }
    }

    /// Nothing may be left over.
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(DecodeError(format!("{} bytes too many", self.rest.len())))
    }
}

fn explain(error: bincode::error::DecodeError) -> DecodeError {
    DecodeError(error.to_string())
}

macro_rules! plain {
    ($($type:ty),*) => { $(
        impl Wire for $type {
            fn put(&self, writer: &mut Writer) {
                writer.plain(*self);
            }
            fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                reader.plain()
            }
        }
    )* };
}
plain!(bool, u8, i8, u32, u64, i64, i128, [u8; 16], [u8; 32]);

impl Wire for Name {
    fn put(&self, writer: &mut Writer) {
        let number = writer.number(self);
        writer.plain(number);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number: u32 = reader.plain()?;
        let name = usize::try_from(number)
            .ok()
            .and_then(|index| reader.names.get(index));
        name.cloned()
            .ok_or_else(|| DecodeError(format!("no name {number}")))
    }
}

impl Wire for Box<str> {
    fn put(&self, writer: &mut Writer) {
        writer.plain(&**self);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.borrowed().map(Into::into)
    }
}

impl Wire for String {
    fn put(&self, writer: &mut Writer) {
        writer.plain(self.as_str());
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.borrowed().map(Into::into)
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
    ($($list:ident),*) => { $(
        impl<T: Wire> Wire for $list<T> {
            fn put(&self, writer: &mut Writer) {
                writer.plain(self.len() as u64);
                for item in self {
                    item.put(writer);
                }
            }
            fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                (0..reader.count()?).map(|_| T::take(reader)).collect()
            }
        }
    )* };
}
sequence!(Vec, VecDeque);

impl<T: Wire + Ord> Wire for BTreeSet<T> {
    fn put(&self, writer: &mut Writer) {
        writer.plain(self.len() as u64);
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
        writer.plain(self.len() as u64);
        for (key, value) in self {
            key.put(writer);
            value.put(writer);
        }
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        (0..reader.count()?)
            .map(|_| Ok((K::take(reader)?, V::take(reader)?)))
            .collect()
    }
}

/// The layout of a struct: its fields, in the order written.
macro_rules! record {
    ($type:ty { $($field:ident),* $(,)? }) => {
        impl $crate::codec::Wire for $type {
            fn put(&self, writer: &mut $crate::codec::Writer) {
                $( $crate::codec::Wire::put(&self.$field, writer); )*
            }
            fn take(reader: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::DecodeError> {
                Ok(Self { $( $field: $crate::codec::Wire::take(reader)? ),* })
            }
        }
    };
}

/// The layout of an enum: each variant's tag and its fields, in the order written.
macro_rules! variants {
    ($type:ty {
        $( $tag:literal => $variant:ident $( ( $inner:ident ) )? $( { $($field:ident),* $(,)? } )? ),* $(,)?
    }) => {
        impl $crate::codec::Wire for $type {
            fn put(&self, writer: &mut $crate::codec::Writer) {
                match self {
                    $( Self::$variant $( ( $inner ) )? $( { $($field),* } )? => {
                        writer.plain::<u8>($tag);
                        $( $crate::codec::Wire::put($inner, writer); )?
                        $( $( $crate::codec::Wire::put($field, writer); )* )?
                    } )*
                }
            }
            fn take(reader: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::DecodeError> {
                match reader.plain::<u8>()? {
                    $( $tag => {
                        $( let $inner = $crate::codec::Wire::take(reader)?; )?
                        $( $( let $field = $crate::codec::Wire::take(reader)?; )* )?
                        Ok(Self::$variant $( ( $inner ) )? $( { $($field),* } )?)
                    } )*
                    tag => Err($crate::codec::DecodeError(format!(
                        "{}: no variant {tag}", stringify!($type)
                    ))),
                }
            }
        }
    };
}

pub(crate) use record;
pub(crate) use variants;
