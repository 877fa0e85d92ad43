//! Small checksummed records, of which all files consist except for the frames.
//!
//! ```text
//!  0  magic, three letters; version 1
//!  4  crc32 of everything behind it
//!  8  length of the body  u32
//! 12  body: fields in order, little-endian
//! ```

use super::{Durable, Hash};
use quota_semantics::Timestamp;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 12;

/// Bytes of a position in the chain.
pub(super) const POSITION_BYTES: usize = 48;

/// The length of a record with a body of this length.
pub(super) const fn record_bytes(body: usize) -> usize {
    HEADER_BYTES + body
}

/// A record being built.
pub(super) struct Record(Vec<u8>);

impl Record {
    pub(super) fn new(magic: [u8; 3]) -> Self {
        let mut bytes = magic.to_vec();
        bytes.push(VERSION);
        bytes.extend_from_slice(&[0; 8]);
        Self(bytes)
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn hash(mut self, hash: &Hash) -> Self {
        self.0.extend_from_slice(hash.as_bytes());
        self
    }

    pub(super) fn time(mut self, time: Timestamp) -> Self {
        self.0.extend_from_slice(&time.nanoseconds().to_le_bytes());
        self
    }

    pub(super) fn position(self, position: &Durable) -> Self {
        self.u64(position.sequence).hash(&position.hash).time(position.time)
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - HEADER_BYTES).unwrap_or(u32::MAX);
        self.0[8..12].copy_from_slice(&length.to_le_bytes());
        let crc = crc32fast::hash(&self.0[8..]);
        self.0[4..8].copy_from_slice(&crc.to_le_bytes());
        self.0
    }
}

/// The body of the record at the beginning of `bytes`, or why there is none.
pub(super) fn open_record(magic: [u8; 3], bytes: &[u8]) -> Result<Fields<'_>, String> {
    let name = String::from_utf8_lossy(&magic).into_owned();
    let Some(header) = bytes.get(..HEADER_BYTES) else {
        return Err(format!("too short for a {name} record"));
    };
    if header[..3] != magic {
        return Err(format!("no {name} record"));
    }
    if header[3] != VERSION {
        return Err(format!("a {name} record of unknown version {}", header[3]));
    }
    let mut fields = Fields::new(&bytes[4..]);
    let crc = fields.u32();
    let length = fields.u32().unwrap_or_default() as usize;
    let Some(body) = bytes.get(HEADER_BYTES..HEADER_BYTES.saturating_add(length)) else {
        return Err(format!("a {name} record that is cut off"));
    };
    if crc != Some(crc32fast::hash(&bytes[8..HEADER_BYTES + length])) {
        return Err(format!("checksum mismatch in a {name} record"));
    }
    Ok(Fields::new(body))
}

/// Decodes fields from the front of a body.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(super) fn hash(&mut self) -> Option<Hash> {
        self.array().map(Hash::from_bytes)
    }

    pub(super) fn time(&mut self) -> Option<Timestamp> {
        self.i64().map(Timestamp::from_nanoseconds)
    }

    pub(super) fn position(&mut self) -> Option<Durable> {
        Some(Durable { sequence: self.u64()?, hash: self.hash()?, time: self.time()? })
    }

    pub(super) fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    pub(super) const fn rest(&self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_and_shows_every_flipped_bit() {
        let position = Durable {
            sequence: 7,
            hash: Hash::from(blake3::hash(b"x")),
            time: Timestamp::from_nanoseconds(-1),
        };
        let bytes = Record::new(*b"QLX").position(&position).u64(9).finish();
        assert_eq!(bytes.len(), record_bytes(POSITION_BYTES + 8));
        let mut fields = open_record(*b"QLX", &bytes).unwrap();
        assert_eq!(fields.position(), Some(position));
        assert_eq!((fields.u64(), fields.u64()), (Some(9), None));
        assert!(open_record(*b"QLY", &bytes).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(open_record(*b"QLX", &damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(open_record(*b"QLX", &bytes[..length]).is_err());
        }
    }
}
