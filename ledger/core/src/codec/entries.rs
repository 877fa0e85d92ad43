//! The payload of a batch: its entries.

use std::sync::Arc;

use super::{
    DecodeError,
    wire::{Reader, Wire, Writer},
};
use crate::event::{Actor, Entry, Event, Sequence};
use quota_semantics::Timestamp;

/// Initial room for an entry: a reservation takes a little less, most other entries take half of it. The buffer grows
/// on demand.
const ENTRY_BYTES: usize = 128;

/// Encodes entries, whose sequences must be dense, as the payload of one batch.
///
/// Per entry: time since the entry before, actor (the same as before, or a new one), event. Sequences are not
/// written: the batch's frame holds the first.
#[must_use]
pub fn encode_entries(entries: &[Entry]) -> Vec<u8> {
    let mut writer = Writer::with_room((entries.len() + 1) * ENTRY_BYTES);
    let mut time = Timestamp::EPOCH;
    let mut actor: Option<&Arc<Actor>> = None;
    for entry in entries {
        let passed = entry.time.nanoseconds();
        passed.wrapping_sub(time.nanoseconds()).put(&mut writer);
        time = entry.time;
        let new = (actor != Some(&entry.actor)).then(|| &*entry.actor);
        new.is_some().put(&mut writer);
        if let Some(new) = new {
            new.put(&mut writer);
        }
        actor = Some(&entry.actor);
        entry.event.put(&mut writer);
    }
    writer.finish()
}

/// Decodes the payload of a batch of `count` entries whose first has the sequence `first`.
///
/// # Errors
/// If the payload is not what [`encode_entries`] wrote.
pub fn decode_entries(
    first: Sequence,
    count: u32,
    payload: &[u8],
) -> Result<Vec<Entry>, DecodeError> {
    let mut reader = Reader::new(payload)?;
    let mut entries = Vec::with_capacity(payload.len().min(count as usize));
    let mut time = Timestamp::EPOCH;
    let mut actor: Option<Arc<Actor>> = None;
    for offset in 0..u64::from(count) {
        let passed = i64::take(&mut reader)?;
        time = Timestamp::from_nanoseconds(time.nanoseconds().wrapping_add(passed));
        if bool::take(&mut reader)? {
            actor = Some(Arc::new(Actor::take(&mut reader)?));
        }
        let actor =
            actor.clone().ok_or_else(|| DecodeError("the first entry has no actor".into()))?;
        let event = Event::take(&mut reader)?;
        let sequence =
            first.checked_add(offset).ok_or_else(|| DecodeError("sequence out of range".into()))?;
        entries.push(Entry { sequence, time, actor, event });
    }
    reader.finish()?;
    Ok(entries)
}
