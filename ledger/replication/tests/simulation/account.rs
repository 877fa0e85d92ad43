//! The invariants of the log and of the answers.

use std::collections::{BTreeMap, BTreeSet};

use quota_core::{codec, event::Event, state::State};
use quota_replication::protocol::Message;

use super::{
    clients::{HARD, amount},
    stream::Stream,
};
use quota_testkit::simulation::Report;

pub(crate) type Checked = Result<(), String>;

#[derive(Default)]
pub(crate) struct Account {
    /// Granted reservations whose grants were acknowledged to clients.
    pub(crate) granted: BTreeSet<u64>,
    /// The last entry that an answer depended on.
    pub(crate) acknowledged: u64,
}

impl Account {
    /// Folds the log, and compares; returns the state.
    pub(crate) fn check(&self, stream: &Stream, report: &mut Report) -> Result<State, String> {
        let mut state = State::default();
        let (mut held, mut ever) = (BTreeMap::new(), BTreeSet::new());
        let mut has_quota = false;
        for (at, (_, bytes)) in stream.committed.iter().enumerate() {
            let message =
                Message::decode(bytes).map_err(|error| format!("message {at}: {error}"))?;
            if message.expected != at as u64 {
                return Err(format!("message {} was written behind {}", at + 1, message.expected));
            }
            let Some(stored) = message.kind.batch() else {
                continue;
            };
            let batch = &stored.batch;
            let entries = codec::decode_entries(batch.first_sequence, batch.count, &batch.payload);
            for entry in entries.map_err(|error| error.to_string())? {
                if entry.sequence != state.head().sequence + 1 {
                    return Err(format!(
                        "entry {} behind {}",
                        entry.sequence,
                        state.head().sequence
                    ));
                }
                state.apply(&entry);
                has_quota |= matches!(entry.event, Event::QuotaSet(_));
                match &entry.event {
                    Event::ReservationGranted(reservation) => {
                        let number = number(&reservation.uid.to_string());
                        if !ever.insert(number) {
                            return Err(format!("u-{number} was granted twice"));
                        }
                        held.insert(number, amount(number));
                    }
                    Event::ReservationExpired { uid, .. } => {
                        report.count("expired");
                        held.remove(&number(&uid.to_string()));
                    }
                    Event::ReservationReleased { uid, .. } => {
                        held.remove(&number(&uid.to_string()));
                    }
                    _ => {}
                }
                let sum: u64 = held.values().sum();
                if has_quota && sum > HARD {
                    return Err(format!("{sum} of {HARD} are held at entry {}", entry.sequence));
                }
            }
        }
        match self.granted.difference(&ever).next() {
            Some(number) => {
                Err(format!("u-{number} was answered as granted, and is not in the log"))
            }
            None => Ok(state),
        }
    }
}

fn number(uid: &str) -> u64 {
    uid.trim_start_matches("u-").parse().unwrap()
}
