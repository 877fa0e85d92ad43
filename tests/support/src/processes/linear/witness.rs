//! Whether a history agrees with the order that the ledger says: its entries are replayed, every answer is compared
//! with what held there, and nothing that was answered is behind what was requested only later.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Operation, Reply, Request, step};

/// What an entry says of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Granted,
    Released,
    Committed,
}

/// An entry of the ledger.
#[derive(Clone, Debug)]
pub struct Entry {
    pub sequence: u64,
    pub namespace: usize,
    pub uid: String,
    pub kind: Kind,
    /// What is granted or committed.
    pub units: i64,
}

const fn kind_of(request: Request) -> Kind {
    match request {
        Request::Reserve(_) => Kind::Granted,
        Request::Release(_) => Kind::Released,
        Request::Commit(_) => Kind::Committed,
    }
}

/// Everything that is wrong.
pub fn check(operations: &[Operation], entries: &[Entry], hard: i64) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut of_uid: BTreeMap<(&str, u8), &Entry> = BTreeMap::new();
    for entry in entries {
        let key = (entry.uid.as_str(), entry.kind as u8);
        if of_uid.insert(key, entry).is_some() {
            wrong.push(format!("{} is {:?} twice", entry.uid, entry.kind));
        }
    }
    // Twice the sequence, and one more for what only looked at it.
    let mut ordered: Vec<(u64, &Operation, Reply)> = Vec::new();
    for operation in operations {
        let found = of_uid.remove(&(operation.uid.as_str(), kind_of(operation.request) as u8));
        match (found, operation.answer) {
            (Some(entry), None | Some((_, Reply::Done))) => {
                if !is_of(operation, entry) {
                    wrong.push(format!("{operation:?}, and {entry:?}"));
                }
                ordered.push((2 * entry.sequence, operation, Reply::Done));
            }
            (None, Some((_, reply @ Reply::Denied(sequence)))) => {
                ordered.push((2 * sequence + 1, operation, reply));
            }
            // It never happened.
            (None, None) => {}
            (found, answer) => wrong.push(format!("{operation:?}: {answer:?}, and {found:?}")),
        }
    }
    let unasked = of_uid.into_values().map(|entry| format!("nobody asked for {entry:?}"));
    wrong.extend(unasked);
    ordered.sort_by_key(|(place, ..)| *place);
    wrong.extend(replay(&ordered, hard));
    wrong.extend(real_time(&ordered));
    wrong
}

/// The operations, and what the ledger says became of those that were not answered: they were carried out, at whatever
/// time, or are left out. Many that may have happened or not leave a search too much to try.
pub fn resolved(operations: &[Operation], entries: &[Entry]) -> Vec<Operation> {
    let done: BTreeSet<_> =
        entries.iter().map(|entry| (entry.uid.as_str(), entry.kind as u8)).collect();
    let resolved = operations.iter().filter_map(|operation| {
        let key = (operation.uid.as_str(), kind_of(operation.request) as u8);
        let answer = match operation.answer {
            None if done.contains(&key) => Some((u64::MAX, Reply::Done)),
            None => return None,
            answer => answer,
        };
        Some(Operation { answer, ..operation.clone() })
    });
    resolved.collect()
}

/// Whether an entry says of a grant what was requested.
fn is_of(operation: &Operation, entry: &Entry) -> bool {
    match operation.request {
        Request::Reserve(units) => (operation.namespace, units) == (entry.namespace, entry.units),
        Request::Release(_) | Request::Commit(_) => true,
    }
}

fn replay(ordered: &[(u64, &Operation, Reply)], hard: i64) -> Vec<String> {
    let mut held: BTreeMap<usize, i64> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (place, operation, reply) in ordered {
        let now = held.entry(operation.namespace).or_default();
        match step(*now, hard, operation.request, *reply) {
            Some(after) => *now = after,
            None => wrong.push(format!("with {now} held at {}: {operation:?}", place / 2)),
        }
    }
    wrong
}

/// What stands later was not answered before what stands earlier was requested.
fn real_time(ordered: &[(u64, &Operation, Reply)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut latest_call, mut pending) = (0, Vec::new());
    let mut last = 0;
    for (place, operation, _) in ordered {
        if *place > last {
            latest_call = pending.drain(..).fold(latest_call, u64::max);
            last = *place;
        }
        if operation.returned() < latest_call {
            wrong.push(format!(
                "answered before what stands before it was asked for: {operation:?}"
            ));
        }
        pending.push(operation.called);
    }
    wrong
}
