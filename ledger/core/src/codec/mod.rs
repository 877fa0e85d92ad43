//! Bytes of entries and of state: bincode, with names interned.
//!
//! A piece of encoded data is self-contained: a table of the names that it uses, then its body, in which a
//! name is a number. Replicas, namespaces and resources repeat all the time, so this makes entries a third as
//! long as with names spelled out, and several times faster to decode.
//!
//! The layout of every record is in `records`, once for both directions. It is format version 1, pinned
//! by golden bytes; a change is a new version.

mod entries;
mod layout_macros;
mod names;
mod records;
mod wire;

pub use entries::{decode_entries, encode_entries};
pub(crate) use layout_macros::{record, variants};
pub(crate) use names::hash_of_text;
pub(crate) use wire::{Reader, Tagged, Wire, Writer, no_variant};

/// Bytes that this version of the format does not produce.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot decode: {0}")]
pub struct DecodeError(pub String);
