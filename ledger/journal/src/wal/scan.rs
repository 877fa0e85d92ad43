//! Reading a segment: which of its bytes are frames, and whether they end cleanly, with a torn write that was never
//! acknowledged, or with damage to an acknowledged one.

use std::{ops::Range, sync::Arc};

use super::{Extent, HEADER_BYTES, Segment, parse_header};
use crate::{
    Damage, Durable, Error, Hash,
    disk::File,
    frame::{self, Frame, Header, OVERHEAD_BYTES, Parsed, Unbounded},
};

/// The content of a segment.
#[derive(Debug)]
pub(crate) struct Scan {
    /// Its frames, checked against the chain.
    pub(crate) extent: Extent,
    /// The size that it was prepared with; 0 if it grows.
    pub(crate) size: u64,
    /// The fault behind the frames; none if zeros follow up to the end.
    pub(crate) fault: Option<Fault>,
}

/// An offset without the expected frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) offset: u64,
    pub(crate) why: String,
    /// Whether a torn write cannot explain the fault: the place was synced before later frames were written, or the
    /// bytes are complete and wrong.
    pub(crate) was_durable: bool,
    /// The places of the headers of frames from the fault on, as far as they can be read.
    pub(crate) headers: Vec<Range<u64>>,
}

impl Fault {
    /// A fault that a torn write cannot explain.
    const fn of_durable(offset: u64, why: String) -> Self {
        Self { offset, why, was_durable: true, headers: Vec::new() }
    }

    /// Distinguishes a torn write from damage, where the chain is at `last`.
    fn torn_or_damaged(bytes: &[u8], offset: u64, last: &Durable, why: String) -> Self {
        // Without the segment's header, its frames are the ones in doubt.
        let first = usize::try_from(offset.max(HEADER_BYTES)).unwrap_or(usize::MAX);
        Self {
            offset,
            why,
            was_durable: was_durable(bytes, first, last),
            headers: headers(bytes, first, last),
        }
    }

    pub(crate) fn damage(&self, file: &dyn File, position: &Durable) -> Damage {
        Damage::new(file.path(), &self.why)
            .at_offset(self.offset)
            .at_sequence(position.sequence.saturating_add(1))
    }
}

/// The position in a segment's header.
pub(crate) fn before(bytes: &[u8]) -> Option<Durable> {
    parse_header(bytes).ok().map(|(before, _)| before)
}

/// Reads a segment that should begin at `before`; `visit` is called for its frames.
pub(crate) fn scan(bytes: &[u8], before: &Durable, visit: impl FnMut(&Frame<'_>)) -> Scan {
    let mut scan = Scan { extent: Extent::new(before), size: 0, fault: None };
    let head = &bytes[..bytes.len().min(usize::try_from(HEADER_BYTES).unwrap_or(0))];
    if head.iter().all(|byte| *byte == 0) {
        scan.fault = rest_of(bytes, 0, before, "no segment header");
        return scan;
    }
    match parse_header(bytes) {
        Ok((found, size)) if found == *before => scan.size = size,
        Ok((found, _)) => {
            let why = format!(
                "it continues sequence {} with hash {}, but the chain is at {} with {}",
                found.sequence, found.hash, before.sequence, before.hash
            );
            scan.fault = Some(Fault::of_durable(0, why));
            return scan;
        }
        Err(why) => {
            scan.fault = Some(Fault::torn_or_damaged(bytes, 0, before, why));
            return scan;
        }
    }
    frames(bytes, &mut scan, visit);
    let length = bytes.len() as u64;
    if scan.fault.is_none() && length < scan.size {
        let why = format!("cut off: {length} of {} bytes are left", scan.size);
        scan.fault = Some(Fault::of_durable(length, why));
    }
    scan
}

fn frames(bytes: &[u8], scan: &mut Scan, mut visit: impl FnMut(&Frame<'_>)) {
    loop {
        let (end, last) = (scan.extent.end, scan.extent.last);
        let at = usize::try_from(end).unwrap_or(usize::MAX);
        let why = match frame::parse(bytes.get(at..).unwrap_or_default()) {
            Parsed::Complete(frame) => match frame.follow(&last) {
                Ok(position) => {
                    scan.extent.extend(frame.bytes.len() as u64, position);
                    visit(&frame);
                    continue;
                }
                Err(why) => {
                    scan.fault = Some(Fault::of_durable(end, why));
                    return;
                }
            },
            Parsed::End => {
                scan.fault = rest_of(bytes, end, &last, "zeros instead of a frame");
                return;
            }
            Parsed::NeedMore(_) => "a frame that is cut off",
            Parsed::Corrupt(why) => why,
        };
        scan.fault = Some(Fault::torn_or_damaged(bytes, end, &last, why.to_owned()));
        return;
    }
}

/// The rest of a segment, where the chain is at `last`. Zeros are not a fault, if only zeros follow.
fn rest_of(bytes: &[u8], offset: u64, last: &Durable, why: &str) -> Option<Fault> {
    let at = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter()
        .any(|byte| *byte != 0)
        .then(|| Fault::torn_or_damaged(bytes, offset, last, why.to_owned()))
}

impl Segment {
    /// A segment as it was read.
    pub(crate) fn recovered(
        before: Durable,
        file: Arc<dyn File>,
        extent: Extent,
        closed: bool,
    ) -> Arc<Self> {
        Self::new(before, file, Extent { closed, ..extent })
    }
}

/// All bytes of a segment's file.
pub(crate) fn read(file: &dyn File) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; usize::try_from(file.length()?).unwrap_or(usize::MAX)];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

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
///
/// Only what was written since the last sync can be torn, and only its first frame begins a group: another group behind
/// it proves that it was durable. But payloads hold texts of callers, and a text can hold all bytes of a frame that
/// begins a group. Payloads therefore prove nothing, and the search goes from header to header, over the payloads. A
/// frame behind a header that cannot be read may be anywhere; it is searched for at every byte there. That is safe as
/// well: the writer makes a header durable before a payload in which a frame may begin.
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
    use quota_semantics::Timestamp;

    use super::*;

    use crate::{Batch, Hash};

    /// A segment of three groups, and the beginning of each.
    fn segment() -> (Vec<u8>, Vec<usize>) {
        let mut bytes = super::super::header(&Durable::NOTHING, 2000);
        let mut previous = Hash::GENESIS;
        let mut starts = Vec::new();
        for first_sequence in [1, 2, 3] {
            starts.push(bytes.len());
            let batch =
                Batch { first_sequence, count: 1, time: Timestamp::EPOCH, payload: vec![9; 50] };
            previous = frame::encode(&batch, &previous, true, &mut bytes);
        }
        starts.push(bytes.len());
        bytes.resize(2000, 0);
        (bytes, starts)
    }

    fn scanned(bytes: &[u8]) -> (u64, Option<Fault>) {
        let scan = scan(bytes, &Durable::NOTHING, |_| {});
        (scan.extent.last.sequence, scan.fault)
    }

    #[test]
    fn only_the_last_group_can_have_been_torn() {
        let (right, starts) = segment();
        assert_eq!(scanned(&right), (3, None));
        for group in 0..3 {
            let mut wrong = right.clone();
            wrong[starts[group] + 60] ^= 1;
            let (last, fault) = scanned(&wrong);
            let fault = fault.unwrap();
            assert_eq!((last, fault.offset), (group as u64, starts[group] as u64));
            assert_eq!(fault.was_durable, group < 2);
        }
    }

    #[test]
    fn every_bit_of_a_group_that_another_one_follows_counts() {
        let (right, starts) = segment();
        for bit in 0..starts[2] * 8 {
            let mut wrong = right.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let (_, fault) = scanned(&wrong);
            assert!(fault.is_some_and(|fault| fault.was_durable), "bit {bit}");
        }
    }

    #[test]
    fn a_file_that_is_shorter_than_it_was_made_is_damaged() {
        let (right, starts) = segment();
        for length in [starts[3], starts[3] + 1, 1999] {
            let (last, fault) = scanned(&right[..length]);
            assert!(last == 3 && fault.unwrap().was_durable);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_accept_what_was_not_written(
            at in 0usize..2000,
            put in proptest::collection::vec(any::<u8>(), 1..300),
        ) {
            let (right, starts) = segment();
            let mut wrong = right.clone();
            let end = wrong.len().min(at + put.len());
            wrong[at..end].copy_from_slice(&put[..end - at]);
            let (last, _) = scanned(&wrong);
            let whole = starts[1..].iter().filter(|end| wrong[..**end] == right[..**end]).count();
            prop_assert_eq!(last, whole as u64);
            let _ = scanned(&put);
            prop_assert_eq!(before(&put), None);
        }

        #[test]
        fn damage_before_a_whole_group_is_no_torn_write(
            at in 0usize..400,
            put in proptest::collection::vec(any::<u8>(), 1..300),
        ) {
            let (right, starts) = segment();
            let mut wrong = right.clone();
            let end = starts[2].min(at + put.len());
            if at < end {
                wrong[at..end].copy_from_slice(&put[..end - at]);
            }
            let (_, fault) = scanned(&wrong);
            prop_assert_eq!(fault.is_some_and(|fault| fault.was_durable), wrong != right);
        }
    }

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
