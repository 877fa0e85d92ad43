//! The one format of a batch, in the write-ahead log, in sled and in the archive: pure functions over bytes.
//!
//! ```text
//!  0  magic "QLF", version 1
//!  4  crc32 of everything behind it
//!  8  flags: bit 0 = first frame of a group (of one write)
//! 12  payload length    u32 ┐
//! 16  entry count       u32 │
//! 20  first sequence    u64 │ hashed, behind the domain and the previous hash
//! 28  ledger time, ns   i64 │
//! 36  payload               ┘
//!     chain hash, 32 bytes
//! ```
//! Numbers are little-endian. The flags are not hashed, so that the chain depends on the entries and not on their
//! grouping.

use std::{fmt, str::FromStr};

use blake3::{
    CHUNK_LEN, Hasher,
    hazmat::{
        ChainingValue, HasherExt as _, Mode, left_subtree_len, merge_subtrees_non_root,
        merge_subtrees_root,
    },
};
use quota_semantics::Timestamp;

use crate::{Batch, Durable, MAX_PAYLOAD_BYTES, codec::Fields};

const MAGIC: [u8; 3] = *b"QLF";
const VERSION: u8 = 1;
/// The first byte of every frame.
pub(super) const FIRST_BYTE: u8 = MAGIC[0];
/// The first bytes of every frame.
const BEGINNING: [u8; 4] = [MAGIC[0], MAGIC[1], MAGIC[2], VERSION];
const GROUP_START: u32 = 1;
const HASHED_FROM: usize = 12;
/// Where the fields of the length and of the number of entries end.
const COUNT_END: usize = 20;
/// Offset of the payload in a frame.
pub(super) const PAYLOAD_AT: usize = 36;
pub(super) const HEADER_BYTES: usize = PAYLOAD_AT;
const HASH_BYTES: usize = 32;

/// The prefix of the chain's hash inputs, so that no other use of BLAKE3 gives the same hash.
const DOMAIN: &[u8] = b"quota-ledger/1";

/// Bytes of a hash input up to the number of entries: the domain, the previous hash, and two numbers.
const HEAD_BYTES: usize = DOMAIN.len() + HASH_BYTES + COUNT_END - HASHED_FROM;

/// Inputs up to this many bytes are hashed in one piece, on the stack.
const SMALL_BYTES: usize = 512;

/// Bytes of a frame besides its payload.
pub(super) const OVERHEAD_BYTES: usize = HEADER_BYTES + HASH_BYTES;

/// A frame, borrowed from the bytes it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    /// Sequence of the first entry.
    pub(super) first_sequence: u64,
    /// Number of entries, at least one.
    pub(super) count: u32,
    /// Ledger time of the last entry.
    pub(super) time: Timestamp,
    /// Whether it is the first of the frames that were synced together. Everything before such a frame was durable
    /// before this one was written.
    pub(super) group_start: bool,
    /// The encoded entries.
    pub(super) payload: &'a [u8],
    /// Chain hash as stored.
    pub(super) hash: Hash,
    /// The whole frame.
    pub(super) bytes: &'a [u8],
}

/// The fields of a frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    crc: u32,
    flags: u32,
    payload_bytes: usize,
    count: u32,
    /// Sequence of the first entry.
    pub(super) first_sequence: u64,
    time: i64,
}

/// The result of parsing at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// A frame with a correct checksum.
    Complete(Frame<'a>),
    /// Zeros, or the end of the bytes: here the written part ends.
    End,
    /// The beginning of a frame with this total length.
    NeedMore(usize),
    /// None of these.
    Corrupt(&'static str),
}

/// Appends the frame of `batch` to `buffer` and returns its chain hash.
pub(super) fn encode(
    batch: &Batch,
    previous: &Hash,
    group_start: bool,
    buffer: &mut Vec<u8>,
) -> Hash {
    let start = buffer.len();
    let length = u32::try_from(batch.payload.len()).unwrap_or(u32::MAX);
    buffer.reserve(OVERHEAD_BYTES.saturating_add(batch.payload.len()));
    buffer.extend_from_slice(&MAGIC);
    buffer.push(VERSION);
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&(if group_start { GROUP_START } else { 0 }).to_le_bytes());
    buffer.extend_from_slice(&length.to_le_bytes());
    buffer.extend_from_slice(&batch.count.to_le_bytes());
    buffer.extend_from_slice(&batch.first_sequence.to_le_bytes());
    buffer.extend_from_slice(&batch.time.nanoseconds().to_le_bytes());
    buffer.extend_from_slice(&batch.payload);
    let hash = link(previous, &buffer[start + HASHED_FROM..]);
    buffer.extend_from_slice(hash.as_bytes());
    let crc = crc32fast::hash(&buffer[start + 8..]);
    buffer[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    hash
}

/// Parses the frame at the beginning of `bytes`. Never panics. [`Parsed::Complete`] means that the checksum is correct,
/// not that the frame continues a chain: see [`Frame::follow`].
pub(super) fn parse(bytes: &[u8]) -> Parsed<'_> {
    let Some(magic) = bytes.get(..4) else {
        return if bytes.iter().all(|byte| *byte == 0) {
            Parsed::End
        } else {
            Parsed::NeedMore(HEADER_BYTES)
        };
    };
    if magic == [0; 4] {
        return Parsed::End;
    }
    if magic[..3] != MAGIC {
        return Parsed::Corrupt("no frame begins here");
    }
    if magic[3] != VERSION {
        return Parsed::Corrupt("a frame of an unknown version");
    }
    let Some(header) = Header::read(bytes) else {
        return Parsed::NeedMore(HEADER_BYTES);
    };
    if header.payload_bytes > MAX_PAYLOAD_BYTES {
        return Parsed::Corrupt("a frame with an impossible length");
    }
    let whole = header.frame_bytes();
    let Some(bytes) = bytes.get(..whole) else {
        return Parsed::NeedMore(whole);
    };
    if crc32fast::hash(&bytes[8..]) != header.crc {
        return Parsed::Corrupt("checksum mismatch");
    }
    if !header.has_possible_sequences() {
        return Parsed::Corrupt("a frame with impossible sequence numbers");
    }
    let Some(hash) = hash_before(bytes, whole) else {
        return Parsed::NeedMore(whole);
    };
    Parsed::Complete(Frame {
        first_sequence: header.first_sequence,
        count: header.count,
        time: Timestamp::from_nanoseconds(header.time),
        group_start: header.flags & GROUP_START != 0,
        payload: &bytes[HEADER_BYTES..HEADER_BYTES + header.payload_bytes],
        hash,
        bytes,
    })
}

/// The header at the beginning of `bytes`, if it is that of a frame that begins with the sequence `expected`. What is
/// behind the header, and the checksum, do not matter.
pub(super) fn header(bytes: &[u8], expected: u64) -> Option<Header> {
    possible_header(bytes).filter(|header| header.first_sequence == expected)
}

/// Whether a frame may begin somewhere in these bytes.
pub(super) fn may_begin_in(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, &BEGINNING).is_some()
}

/// The chain hash that is stored before an offset, if a frame ends there.
pub(super) fn hash_before(bytes: &[u8], at: usize) -> Option<Hash> {
    let start = at.checked_sub(HASH_BYTES)?;
    Fields::new(bytes.get(start..at)?).hash()
}

/// The sequence with which a frame at the beginning of `bytes` begins, if its header is possible.
pub(super) fn possible_sequence(bytes: &[u8]) -> Option<u64> {
    possible_header(bytes).map(|header| header.first_sequence)
}

fn possible_header(bytes: &[u8]) -> Option<Header> {
    let header = Header::read(bytes)?;
    let is_possible = bytes.starts_with(&BEGINNING)
        && header.payload_bytes <= MAX_PAYLOAD_BYTES
        && header.has_possible_sequences();
    is_possible.then_some(header)
}

/// A frame whose header may give a wrong length and number of entries.
pub(super) struct Unbounded<'a> {
    bytes: &'a [u8],
    previous: Hash,
    beginnings: Beginnings<'a>,
}

impl<'a> Unbounded<'a> {
    /// The frame at the beginning of `bytes`, behind the hash `previous`.
    pub(super) fn new(bytes: &'a [u8], previous: Hash) -> Self {
        let behind_count = bytes.get(COUNT_END..).unwrap_or_default();
        Self { bytes, previous, beginnings: Beginnings::new(HEAD_BYTES, behind_count) }
    }

    /// Whether the frame has this length and this number of entries. Takes about as long for any length.
    pub(super) fn is(&self, bytes: usize, count: u32) -> bool {
        let payload_bytes = bytes.saturating_sub(OVERHEAD_BYTES);
        let Ok(length) = u32::try_from(payload_bytes) else {
            return false;
        };
        let mut head = [0; HEAD_BYTES];
        head[..DOMAIN.len()].copy_from_slice(DOMAIN);
        head[DOMAIN.len()..HEAD_BYTES - 8].copy_from_slice(self.previous.as_bytes());
        head[HEAD_BYTES - 8..HEAD_BYTES - 4].copy_from_slice(&length.to_le_bytes());
        head[HEAD_BYTES - 4..].copy_from_slice(&count.to_le_bytes());
        let hashed = payload_bytes.saturating_add(PAYLOAD_AT - COUNT_END);
        let hash = self.beginnings.hash(&head, hashed);
        bytes >= OVERHEAD_BYTES
            && hash.is_some_and(|hash| hash_before(self.bytes, bytes) == Some(hash.into()))
    }
}

fn link(previous: &Hash, hashed: &[u8]) -> Hash {
    let (domain, length) = (DOMAIN.len(), DOMAIN.len() + HASH_BYTES + hashed.len());
    let mut small = [0; SMALL_BYTES];
    let Some(input) = small.get_mut(..length) else {
        let mut hasher = blake3::Hasher::new();
        hasher.update(DOMAIN);
        hasher.update(previous.as_bytes());
        hasher.update(hashed);
        return hasher.finalize().into();
    };
    // Most batches of a quiet ledger are small, and a hasher costs more than such a batch.
    input[..domain].copy_from_slice(DOMAIN);
    input[domain..domain + HASH_BYTES].copy_from_slice(previous.as_bytes());
    input[domain + HASH_BYTES..].copy_from_slice(hashed);
    blake3::hash(input).into()
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(bytes.get(BEGINNING.len()..)?);
        Some(Self {
            crc: fields.u32()?,
            flags: fields.u32()?,
            payload_bytes: fields.u32()? as usize,
            count: fields.u32()?,
            first_sequence: fields.u64()?,
            time: fields.i64()?,
        })
    }

    /// Length of the whole frame.
    pub(super) const fn frame_bytes(&self) -> usize {
        OVERHEAD_BYTES + self.payload_bytes
    }

    /// Sequence behind the last entry.
    pub(super) const fn next_sequence(&self) -> u64 {
        self.first_sequence.saturating_add(self.count as u64)
    }

    const fn has_possible_sequences(&self) -> bool {
        let end = self.first_sequence.checked_add(self.count as u64);
        self.count > 0 && self.first_sequence > 0 && end.is_some()
    }
}

impl Frame<'_> {
    /// Sequence of the last entry.
    pub(super) const fn last_sequence(&self) -> u64 {
        self.first_sequence + self.count as u64 - 1
    }

    /// Checks that this frame continues the chain that ends at `position`, and returns the new end.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) fn follow(&self, position: &Durable) -> Result<Durable, String> {
        let expected = position.sequence.saturating_add(1);
        if self.first_sequence != expected {
            return Err(format!("sequence {} instead of {expected}", self.first_sequence));
        }
        if !self.continues(&position.hash) {
            return Err("the batch does not continue the hash chain".to_owned());
        }
        if self.time < position.time {
            return Err(format!("ledger time goes back from {} to {}", position.time, self.time));
        }
        Ok(self.end())
    }

    /// Whether its chain hash is that of its content behind the hash `previous`.
    pub(super) fn continues(&self, previous: &Hash) -> bool {
        let hashed = &self.bytes[HASHED_FROM..self.bytes.len() - HASH_BYTES];
        link(previous, hashed) == self.hash
    }

    /// The chain position behind this frame.
    pub(super) const fn end(&self) -> Durable {
        Durable { sequence: self.last_sequence(), hash: self.hash, time: self.time }
    }
}

/// A BLAKE3 hash of 32 bytes: of a batch and all batches before it, or of a snapshot's content.
/// Printed and parsed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash before the first batch.
    pub const GENESIS: Self = Self([0; 32]);

    /// The hash of these bytes, as stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<blake3::Hash> for Hash {
    fn from(hash: blake3::Hash) -> Self {
        Self(hash.into())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a hash of 64 hexadecimal digits: {0:?}")]
pub struct ParseHashError(String);

impl FromStr for Hash {
    type Err = ParseHashError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        blake3::Hash::from_hex(text).map(Self::from).map_err(|_| ParseHashError(text.to_owned()))
    }
}

// The hashes of many beginnings of the same bytes, each behind a head of its own, without reading all of the bytes for
// each: the hash is the root of a tree, of which they share the most.

/// Bytes behind a head, and the parts of their tree that do not depend on the head.
pub(super) struct Beginnings<'a> {
    head_bytes: usize,
    body: &'a [u8],
    /// The nodes over 1, 2, 4, … whole chunks, in order. Those over the first chunk, which holds the head, are not used.
    levels: Vec<Vec<ChainingValue>>,
}

impl<'a> Beginnings<'a> {
    /// For heads of this length, shorter than a chunk.
    pub(super) fn new(head_bytes: usize, body: &'a [u8]) -> Self {
        debug_assert!(head_bytes < CHUNK_LEN);
        let behind_first = body.get(CHUNK_LEN - head_bytes..).unwrap_or_default();
        let mut level = vec![ChainingValue::default()];
        level.extend(
            (1u64..)
                .zip(behind_first.chunks_exact(CHUNK_LEN))
                .map(|(number, chunk)| chunk_value(number * CHUNK_LEN as u64, &[chunk])),
        );
        let mut levels = Vec::new();
        while level.len() > 1 {
            let pairs = level.chunks_exact(2);
            let above = pairs.map(|pair| merge_subtrees_non_root(&pair[0], &pair[1], Mode::Hash));
            let above = above.collect();
            levels.push(std::mem::replace(&mut level, above));
        }
        Self { head_bytes, body, levels }
    }

    /// The hash of the head and this many bytes of the body; none if there are fewer.
    pub(super) fn hash(&self, head: &[u8], body_bytes: usize) -> Option<blake3::Hash> {
        debug_assert_eq!(head.len(), self.head_bytes);
        let body = self.body.get(..body_bytes)?;
        let whole = head.len().saturating_add(body.len()) as u64;
        if whole <= CHUNK_LEN as u64 {
            return Some(Hasher::new().update(head).update(body).finalize());
        }
        let left = left_subtree_len(whole);
        let (first, second) = (self.node(head, 0, left)?, self.node(head, left, whole - left)?);
        Some(merge_subtrees_root(&first, &second, Mode::Hash))
    }

    /// The node over a part of the input.
    fn node(&self, head: &[u8], start: u64, bytes: u64) -> Option<ChainingValue> {
        if start > 0
            && let Some(value) = self.precomputed(start, bytes)
        {
            return Some(value);
        }
        if bytes > CHUNK_LEN as u64 {
            let left = left_subtree_len(bytes);
            let first = self.node(head, start, left)?;
            let second = self.node(head, start + left, bytes - left)?;
            return Some(merge_subtrees_non_root(&first, &second, Mode::Hash));
        }
        let from = usize::try_from(start).ok()?.saturating_sub(self.head_bytes);
        let to = usize::try_from(start + bytes).ok()?.checked_sub(self.head_bytes)?;
        let body = self.body.get(from..to)?;
        Some(match start {
            0 => chunk_value(0, &[head, body]),
            _ => chunk_value(start, &[body]),
        })
    }

    /// The node over whole chunks, if it does not depend on the head.
    fn precomputed(&self, start: u64, bytes: u64) -> Option<ChainingValue> {
        let chunks = bytes / CHUNK_LEN as u64;
        if !bytes.is_multiple_of(CHUNK_LEN as u64) || !chunks.is_power_of_two() {
            return None;
        }
        let level = self.levels.get(chunks.trailing_zeros() as usize)?;
        level.get(usize::try_from(start / bytes).ok()?).copied()
    }
}

fn chunk_value(start: u64, parts: &[&[u8]]) -> ChainingValue {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(start);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize_non_root()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(first_sequence: u64, payload: &[u8]) -> Batch {
        Batch {
            first_sequence,
            count: 2,
            time: Timestamp::from_nanoseconds(1_700_000_000_000_000_000),
            payload: payload.to_vec(),
        }
    }

    #[test]
    fn version_1_has_these_bytes() {
        let mut bytes = Vec::new();
        let first = encode(&batch(1, b"first"), &Hash::GENESIS, true, &mut bytes);
        encode(&batch(3, b""), &first, false, &mut bytes);
        super::super::golden::check("frames", &bytes);
    }

    #[test]
    fn a_frame_parses_back_and_continues_the_chain() {
        let mut bytes = Vec::new();
        let first = batch(1, b"first");
        let hash = encode(&first, &Hash::GENESIS, true, &mut bytes);
        let Parsed::Complete(frame) = parse(&bytes) else {
            panic!("{:?}", parse(&bytes));
        };
        assert_eq!((frame.first_sequence, frame.count), (1, 2));
        assert_eq!((frame.time, frame.payload), (first.time, &b"first"[..]));
        let end = frame.follow(&Durable::NOTHING).unwrap();
        assert_eq!((end.sequence, end.hash, end.time), (2, hash, first.time));
        assert!(frame.group_start);
        assert!(frame.follow(&end).unwrap_err().contains("sequence 1 instead of 3"));
        let elsewhere = Durable { hash, ..Durable::NOTHING };
        assert!(frame.follow(&elsewhere).unwrap_err().contains("hash chain"));
        let later = Durable { time: Timestamp::MAX, ..Durable::NOTHING };
        assert!(frame.follow(&later).unwrap_err().contains("time goes back"));
    }

    #[test]
    fn the_beginning_of_a_frame_is_found_anywhere() {
        let mut bytes = Vec::new();
        encode(&batch(1, b"payload"), &Hash::GENESIS, false, &mut bytes);
        assert!(may_begin_in(&bytes) && !may_begin_in(&bytes[1..]));
        for text in [&b"text QLF\x01 text"[..], b"QQLF\x01", b"QLQLF\x01"] {
            assert!(may_begin_in(text));
        }
        for text in [&b""[..], b"QLF", b"QLF\x02", b"LF\x01", b"Q LF\x01"] {
            assert!(!may_begin_in(text));
        }
    }

    #[test]
    fn a_header_is_read_whatever_is_behind_it() {
        let mut bytes = Vec::new();
        encode(&batch(5, b"payload"), &Hash::GENESIS, true, &mut bytes);
        for end in 0..=bytes.len() {
            let mut torn = bytes.clone();
            torn[end..].fill(0);
            let found = header(&torn, 5).map(|header| header.frame_bytes());
            // The time is zeros in part, or lost: it says nothing of the place.
            let is_readable = end > 20;
            assert_eq!(found, is_readable.then_some(bytes.len()), "{end}");
            assert_eq!(header(&bytes[..end], 5).is_some(), end >= HEADER_BYTES);
        }
        assert_eq!(header(&bytes, 5).unwrap().next_sequence(), 7);
        assert_eq!((header(&bytes, 4), header(&bytes, 6)), (None, None));
    }

    #[test]
    fn ends_beginnings_and_damage_are_told_apart() {
        let mut bytes = Vec::new();
        encode(&batch(1, b"payload"), &Hash::GENESIS, false, &mut bytes);
        assert_eq!(parse(&[]), Parsed::End);
        assert_eq!(parse(&[0; 100]), Parsed::End);
        assert_eq!(parse(&bytes[..3]), Parsed::NeedMore(HEADER_BYTES));
        assert_eq!(parse(&bytes[..20]), Parsed::NeedMore(HEADER_BYTES));
        assert_eq!(parse(&bytes[..60]), Parsed::NeedMore(bytes.len()));
        assert!(matches!(parse(b"something else"), Parsed::Corrupt(_)));
        let mut newer = bytes.clone();
        newer[3] = 2;
        assert_eq!(parse(&newer), Parsed::Corrupt("a frame of an unknown version"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), framed in any::<bool>()) {
            let mut bytes = bytes;
            if framed && bytes.len() > 4 {
                bytes[..4].copy_from_slice(b"QLF\x01");
            }
            let _ = parse(&bytes);
        }

        #[test]
        fn one_flipped_bit_is_never_accepted(payload in proptest::collection::vec(any::<u8>(), 0..100), place in any::<prop::sample::Index>(), bit in 0..8u32) {
            let mut bytes = Vec::new();
            encode(&batch(1, &payload), &Hash::GENESIS, true, &mut bytes);
            let place = place.index(bytes.len());
            bytes[place] ^= 1u8 << bit;
            prop_assert!(!matches!(parse(&bytes), Parsed::Complete(_)));
        }

        #[test]
        fn a_forged_checksum_does_not_forge_the_chain(payload in proptest::collection::vec(any::<u8>(), 1..100), place in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            encode(&batch(1, &payload), &Hash::GENESIS, true, &mut bytes);
            let place = HASHED_FROM + 4 + place.index(bytes.len() - HASHED_FROM - 4);
            bytes[place] ^= 1;
            let crc = crc32fast::hash(&bytes[8..]);
            bytes[4..8].copy_from_slice(&crc.to_le_bytes());
            if let Parsed::Complete(frame) = parse(&bytes) {
                prop_assert!(frame.follow(&Durable::NOTHING).is_err());
            }
        }
    }

    #[test]
    fn a_hash_prints_and_parses_as_hexadecimal() {
        let hash = Hash::from(blake3::hash(b"quota"));
        assert_eq!(hash.to_string().len(), 64);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!(Hash::GENESIS.to_string(), "0".repeat(64));
        assert!("abc".parse::<Hash>().is_err());
    }

    #[test]
    fn they_are_the_hashes_of_the_bytes() {
        let body: Vec<u8> = (0..70_000u32).map(|at| (at * 7 / 3) as u8).collect();
        let heads = [[1; 54], [2; 54]];
        let beginnings = Beginnings::new(54, &body);
        let chunk = CHUNK_LEN - 54;
        let ends = (0..body.len()).step_by(97);
        let edges = (0..68).flat_map(|n| (n * CHUNK_LEN + chunk - 1)..=(n * CHUNK_LEN + chunk + 1));
        for end in ends.chain(edges).chain([body.len()]) {
            for head in heads {
                let whole = [&head[..], &body[..end]].concat();
                let hash = beginnings.hash(&head, end);
                assert_eq!(hash, Some(blake3::hash(&whole)), "{end}");
            }
        }
        assert_eq!(beginnings.hash(&heads[0], body.len() + 1), None);
    }
}
