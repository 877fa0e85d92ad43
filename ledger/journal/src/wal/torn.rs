//! Whether the frames behind the last good one of a segment were durable once.
//!
//! Only what was written since the last sync can be torn, and only its first frame begins a group: another group behind
//! it proves that it was durable. But payloads hold texts of callers, and a text can hold all bytes of a frame that
//! begins a group. Payloads therefore prove nothing, and the search goes from header to header, over the payloads. A
//! frame behind a header that cannot be read may be anywhere; it is searched for at every byte there. That is safe as
//! well: the writer makes a header durable before a payload in which a frame may begin.

use std::ops::Range;

use crate::{
    Durable, Hash,
    frame::{self, Header, OVERHEAD_BYTES, Parsed, Unbounded},
};

/// The frames from a place on, as their headers say: with their places, up to a header that cannot be read.
struct Headers<'a> {
    bytes: &'a [u8],
    at: usize,
    sequence: u64,
}

impl<'a> Headers<'a> {
    /// From `first` on, where the chain is at `last`.
    const fn new(bytes: &'a [u8], first: usize, last: &Durable) -> Self {
        Self { bytes, at: first, sequence: last.sequence.saturating_add(1) }
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}

impl Iterator for Headers<'_> {
    type Item = (usize, Header);

    fn next(&mut self) -> Option<Self::Item> {
        let header = frame::header(self.rest(), self.sequence)?;
        let at = self.at;
        self.at = at.saturating_add(header.frame_bytes());
        self.sequence = header.next_sequence();
        Some((at, header))
    }
}

/// The places of the headers of frames that may be torn. The first one is at `first`, where the chain is at `last`.
pub(super) fn headers(bytes: &[u8], first: usize, last: &Durable) -> Vec<Range<u64>> {
    Headers::new(bytes, first, last)
        .map(|(at, _)| at as u64..at.saturating_add(frame::HEADER_BYTES) as u64)
        .collect()
}

/// Whether the frame at `first`, where the chain is at `last`, was durable before later bytes were written.
pub(super) fn was_durable(bytes: &[u8], first: usize, last: &Durable) -> bool {
    let mut headers = Headers::new(bytes, first, last);
    let mut previous = Some(last.hash);
    while let Some((at, header)) = headers.next() {
        let rest = bytes.get(at..).unwrap_or_default();
        let is_other_group = at > first && begins_group(rest);
        if is_other_group || has_wrong_length(rest, &header, previous) {
            return true;
        }
        previous = frame::hash_before(bytes, headers.at);
    }
    // The first frame itself is no other group.
    let unread = headers.at.max(first.saturating_add(1));
    places_of_frames(bytes.get(unread..).unwrap_or_default()).any(begins_group)
}

fn begins_group(bytes: &[u8]) -> bool {
    matches!(frame::parse(bytes), Parsed::Complete(frame) if frame.group_start)
}

/// The bytes from each place on at which a frame may begin.
fn places_of_frames(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let places = bytes.iter().enumerate();
    places.filter(|(_, byte)| **byte == frame::FIRST_BYTE).map(|(at, _)| &bytes[at..])
}

/// Whether the frame with this header is whole and ends elsewhere than its header says: there another frame continues
/// it. A damaged length must not hide the groups behind it. A payload cannot claim this: it would have to hold the
/// chain hash of itself.
fn has_wrong_length(bytes: &[u8], header: &Header, previous: Option<Hash>) -> bool {
    let Some(previous) = previous else {
        return false;
    };
    let claimed = &bytes[..bytes.len().min(header.frame_bytes())];
    let inside = claimed.get(OVERHEAD_BYTES..).unwrap_or_default();
    let mut whole = None;
    places_of_frames(inside).any(|place| {
        let at = claimed.len() - place.len();
        let next = frame::possible_sequence(&bytes[at..]);
        let entries = next.and_then(|next| next.checked_sub(header.first_sequence));
        let Some(count) = entries.and_then(|entries| u32::try_from(entries).ok()) else {
            return false;
        };
        // A payload may hold any number of frames, and each may be large. So the condition that
        // no payload can meet is checked first, since the others take as long as the next frame is.
        let whole = whole.get_or_insert_with(|| Unbounded::new(claimed, previous));
        whole.is(at, count)
            && matches!(frame::parse(&bytes[at..]), Parsed::Complete(next)
                if frame::hash_before(bytes, at).is_some_and(|hash| next.continues(&hash)))
    })
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use proptest::prelude::*;

    use super::*;
    use crate::Batch;
    use quota_semantics::Timestamp;

    /// Appends a group of frames with these payloads; returns the chain behind it.
    fn group(payloads: &[&[u8]], last: &Durable, bytes: &mut Vec<u8>) -> Durable {
        let mut last = *last;
        for (number, payload) in payloads.iter().enumerate() {
            let batch = Batch {
                first_sequence: last.sequence + 1,
                count: 2,
                time: Timestamp::EPOCH,
                payload: payload.to_vec(),
            };
            let hash = frame::encode(&batch, &last.hash, number == 0, bytes);
            last = Durable { sequence: batch.last_sequence(), hash, time: batch.time };
        }
        last
    }

    /// Two groups as a caller can make them, which continue each other and some chain.
    fn forged() -> Vec<u8> {
        let mut bytes = b"some text".to_vec();
        let last = Durable {
            sequence: 6,
            hash: Hash::from(blake3::hash(b"anything")),
            ..Durable::NOTHING
        };
        bytes.extend_from_slice(last.hash.as_bytes());
        let last = group(&[b"text"], &last, &mut bytes);
        group(&[b"text"], &last, &mut bytes);
        bytes.extend_from_slice(&[b'.'; 200]);
        bytes
    }

    #[test]
    fn groups_in_payloads_prove_nothing_and_groups_behind_them_do() {
        let forged = forged();
        let mut bytes = Vec::new();
        let last = group(&[&forged], &Durable::NOTHING, &mut bytes);
        let second = bytes.len();
        let last = group(&[b"", &forged], &last, &mut bytes);
        let torn = bytes[second..].to_vec();
        let third = second + frame::OVERHEAD_BYTES;
        group(&[b"later"], &last, &mut bytes);
        let first = Durable { sequence: 2, ..Durable::NOTHING };
        let behind = third + frame::HEADER_BYTES - second;
        for from in (frame::HEADER_BYTES..frame::OVERHEAD_BYTES).chain(behind..torn.len()) {
            for to in [from + 1, from + 60, torn.len()] {
                let lost = from..to.min(torn.len());
                if from < frame::OVERHEAD_BYTES && lost.end > frame::OVERHEAD_BYTES {
                    continue;
                }
                let mut torn = torn.clone();
                torn[lost.clone()].fill(0);
                assert!(!was_durable(&torn, 0, &first), "{lost:?}");
                torn.extend_from_slice(&bytes[second + torn.len()..]);
                assert!(was_durable(&torn, 0, &first), "{lost:?}");
            }
        }
        assert!(was_durable(&bytes, 0, &Durable::NOTHING));
    }

    #[test]
    fn many_headers_in_a_payload_take_little_time() {
        let mut header = b"QLF\x01".to_vec();
        header.extend_from_slice(&[0; 8]);
        header.extend_from_slice(&16_000_000u32.to_le_bytes());
        header.extend_from_slice(&1u32.to_le_bytes());
        header.extend_from_slice(&3u64.to_le_bytes());
        header.extend_from_slice(&[0; 8]);
        assert_eq!(header.len(), frame::HEADER_BYTES);
        let payload = header.repeat(40_000);
        let mut bytes = Vec::new();
        group(&[&payload], &Durable::NOTHING, &mut bytes);
        let end = bytes.len();
        bytes[end - 100..].fill(0);
        bytes.resize(end + 16_000_000, 0);
        let (judged, judgement) = mpsc::channel();
        thread::spawn(move || judged.send(was_durable(&bytes, 0, &Durable::NOTHING)));
        // The checksums alone of what the headers claim are 640 GB.
        assert_eq!(judgement.recv_timeout(Duration::from_secs(10)), Ok(false));
    }

    #[test]
    fn headers_are_found_up_to_one_that_cannot_be_read() {
        let mut bytes = Vec::new();
        group(&[b"", b"payload", b""], &Durable::NOTHING, &mut bytes);
        bytes[frame::HEADER_BYTES..frame::OVERHEAD_BYTES].fill(0);
        let places: Vec<u64> =
            headers(&bytes, 0, &Durable::NOTHING).iter().map(|header| header.start).collect();
        let second = frame::OVERHEAD_BYTES as u64;
        assert_eq!(places, [0, second, 2 * second + 7]);
        bytes[frame::OVERHEAD_BYTES] ^= 1;
        assert_eq!(headers(&bytes, 0, &Durable::NOTHING).len(), 1);
    }

    proptest! {
        #[test]
        fn a_damaged_length_hides_no_group(
            start in 4usize..16,
            put in proptest::collection::vec(any::<u8>(), 1..16),
            payload in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut bytes = Vec::new();
            let last = group(&[&payload], &Durable::NOTHING, &mut bytes);
            group(&[b"later"], &last, &mut bytes);
            bytes.resize(bytes.len() + 2000, 0);
            // Whatever is damaged at once: behind it is the sequence.
            let end = 20.min(start + put.len());
            bytes[start..end].copy_from_slice(&put[..end - start]);
            prop_assert!(was_durable(&bytes, 0, &Durable::NOTHING));
        }
    }
}
