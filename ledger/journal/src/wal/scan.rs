//! Reading a segment: which of its bytes are frames, and whether they end cleanly, with a torn write that was never
//! acknowledged, or with damage to an acknowledged one.

use std::{ops::Range, sync::Arc};

use super::{Extent, HEADER_BYTES, Segment, parse_header, torn};
use crate::{
    Damage, Durable, Error,
    disk::File,
    frame::{self, Frame, Parsed},
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
            was_durable: torn::was_durable(bytes, first, last),
            headers: torn::headers(bytes, first, last),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Batch, Hash};
    use quota_semantics::Timestamp;

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
}
