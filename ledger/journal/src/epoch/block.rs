//! Blocks: whole frames, verbatim, as values of sled.
//!
//! The key is the first sequence and a piece number, both big-endian, so that keys are in order. A value never has more
//! than 4 KiB: sled writes up to 17 values as one, and puts values above 128 KiB into files of their own, which it
//! never syncs. The first piece begins with a header: version 1, codec (0 none, 1 lz4), length before compression u32,
//! number of pieces u32, position of the chain before the block.

use crate::codec::{Fields, POSITION_BYTES};
use crate::{Durable, MAX_PAYLOAD_BYTES, disk::Pair, frame::OVERHEAD_BYTES};

/// Most bytes of one value.
pub(super) const VALUE_BYTES: usize = 4 * 1024;

/// Frames are gathered into blocks of about this many bytes before compression; only a single larger frame makes a
/// larger block. This is the window of lz4: the end of a reservation repeats the names of its beginning.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

const HEADER_BYTES: usize = 2 + 4 + 4 + POSITION_BYTES;
const VERSION: u8 = 1;
const RAW: u8 = 0;
const LZ4: u8 = 1;

/// The key of a piece.
pub(super) fn key(first_sequence: u64, piece: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&first_sequence.to_be_bytes());
    key[8..].copy_from_slice(&piece.to_be_bytes());
    key
}

/// The first sequence and the piece number of a key.
pub(super) fn parse_key(key: &[u8]) -> Option<(u64, u32)> {
    let (first, piece) = key.split_first_chunk::<8>()?;
    let piece: [u8; 4] = piece.try_into().ok()?;
    Some((u64::from_be_bytes(*first), u32::from_be_bytes(piece)))
}

/// Appends the pairs of a block of these frames, which continue `before`.
pub(super) fn encode(before: &Durable, frames: &[u8], pairs: &mut Vec<Pair>) {
    let packed = lz4_flex::block::compress(frames);
    let (codec, stored) =
        if packed.len() < frames.len() { (LZ4, packed.as_slice()) } else { (RAW, frames) };
    let pieces = stored.len().saturating_add(HEADER_BYTES).div_ceil(VALUE_BYTES);
    let mut value = Vec::with_capacity(VALUE_BYTES.min(HEADER_BYTES + stored.len()));
    value.extend_from_slice(&[VERSION, codec]);
    value.extend_from_slice(&u32::try_from(frames.len()).unwrap_or(u32::MAX).to_le_bytes());
    value.extend_from_slice(&u32::try_from(pieces).unwrap_or(u32::MAX).to_le_bytes());
    value.extend_from_slice(&before.sequence.to_le_bytes());
    value.extend_from_slice(before.hash.as_bytes());
    value.extend_from_slice(&before.time.nanoseconds().to_le_bytes());
    let first = before.sequence.saturating_add(1);
    let mut rest = stored;
    for piece in 0.. {
        let taken = rest.len().min(VALUE_BYTES.saturating_sub(value.len()));
        value.extend_from_slice(&rest[..taken]);
        rest = &rest[taken..];
        pairs.push((key(first, piece).to_vec(), std::mem::take(&mut value)));
        if rest.is_empty() {
            return;
        }
    }
}

/// A block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) before: Durable,
    pub(super) pieces: usize,
    codec: u8,
    /// The length of its frames in bytes.
    pub(super) length: usize,
}

/// The header in the first piece of a block.
pub(super) fn parse_header(value: &[u8]) -> Result<Header, String> {
    let mut fields = Fields::new(value);
    let (Some(version), Some(codec), Some(length), Some(pieces), Some(before)) =
        (fields.u8(), fields.u8(), fields.u32(), fields.u32(), fields.position())
    else {
        return Err("a block without its header".to_owned());
    };
    if version != VERSION || codec > LZ4 {
        return Err(format!("a block of unknown version {version}, codec {codec}"));
    }
    let length = length as usize;
    if length > MAX_PAYLOAD_BYTES + OVERHEAD_BYTES || pieces == 0 {
        return Err("a block of an impossible length".to_owned());
    }
    Ok(Header { before, pieces: pieces as usize, codec, length })
}

/// Appends the frames of a block, all of whose values are given, to `frames`.
pub(super) fn decode(header: &Header, values: &[Pair], frames: &mut Vec<u8>) -> Result<(), String> {
    let first = header.before.sequence.saturating_add(1);
    let bytes = values.iter().map(|(_, value)| value.len()).sum();
    let mut stored = Vec::with_capacity(bytes);
    for (number, (found, value)) in (0u32..).zip(values) {
        if parse_key(found) != Some((first, number)) {
            return Err(format!("piece {number} of the block at {first} is missing"));
        }
        let skip = if number == 0 { HEADER_BYTES } else { 0 };
        stored.extend_from_slice(value.get(skip..).unwrap_or_default());
    }
    if header.codec == RAW {
        if stored.len() != header.length {
            return Err("a block that has not its length".to_owned());
        }
        frames.extend_from_slice(&stored);
        return Ok(());
    }
    let start = frames.len();
    frames.resize(start.saturating_add(header.length), 0);
    match lz4_flex::block::decompress_into(&stored, &mut frames[start..]) {
        Ok(length) if length == header.length => Ok(()),
        _ => Err("a block that cannot be decompressed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Hash, golden};
    use quota_semantics::Timestamp;

    fn before(sequence: u64) -> Durable {
        Durable {
            sequence,
            hash: Hash::from(blake3::hash(b"before")),
            time: Timestamp::from_nanoseconds(5),
        }
    }

    #[test]
    fn version_1_has_these_bytes() {
        let mut pairs = Vec::new();
        encode(&before(7), b"incompressible", &mut pairs);
        encode(&before(8), &[7; 100], &mut pairs);
        let bytes: Vec<u8> = pairs.into_iter().flat_map(|(k, v)| [k, v].concat()).collect();
        golden::check("blocks", &bytes);
    }

    proptest! {
        #[test]
        fn blocks_read_back(length in 1usize..40_000, random in any::<bool>()) {
            let mut state = 1u32;
            let frames: Vec<u8> = (0..length).map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if random { (state >> 24) as u8 } else { 3 }
            }).collect();
            let mut pairs = Vec::new();
            encode(&before(7), &frames, &mut pairs);
            prop_assert!(pairs.iter().all(|(_, value)| value.len() <= VALUE_BYTES));
            let header = parse_header(&pairs[0].1).unwrap();
            prop_assert_eq!((header.pieces, header.before), (pairs.len(), before(7)));
            let mut read = Vec::new();
            decode(&header, &pairs, &mut read).unwrap();
            prop_assert!(read == frames);
            pairs.pop();
            prop_assert!(decode(&header, &pairs, &mut read).is_err());
        }

        #[test]
        fn arbitrary_values_never_panic(value in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(header) = parse_header(&value) {
                let pairs = [(key(header.before.sequence.wrapping_add(1), 0).to_vec(), value)];
                let _ = decode(&header, &pairs, &mut Vec::new());
            }
        }
    }
}
