//! `watch`: entries as they become durable.

use std::{thread, time::Duration};

use quota_client::{
    http::Address,
    wire::{Entry, Page, Status},
};
use serde_json::Value;

use super::{
    args::Beginning,
    client::read,
    entry::{self, EntryColumns},
    failure::{Failure, Outcome, Transient},
    output::{Format, note},
    session::Session,
};

/// The delay before the first attempt to reconnect; doubled for each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The maximum delay between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// One connection to a stream.
#[derive(Debug, Default)]
pub(crate) struct Attempt {
    /// Whether the daemon has ever answered. If so, a broken connection is re-established.
    pub(crate) connected: bool,
    /// Whether data has been received on this connection.
    pub(crate) moved: bool,
}

/// The sequence of the first entry of a range. That of a time is searched for: entries are in the order of their times.
pub(crate) fn sequence_of(session: &Session, beginning: Beginning) -> Outcome<u64> {
    let time = match beginning {
        Beginning::Sequence(sequence) => return Ok(sequence),
        Beginning::Time(time) => time,
    };
    let answer = session.client.get::<Status>(&Address::of(["v1", "status"]))?;
    let status = answer.content;
    let mut first = status.oldest.map_or(1, |oldest| oldest.sequence);
    let mut behind = status.as_of.sequence.saturating_add(1);
    while first < behind {
        let middle = first + (behind - first) / 2;
        let address = Address::of(["v1", "entries"]).with("from", middle);
        let page = session.client.list::<Page<Entry>>(&address, Some(1))?;
        // The entries that the caller may see.
        match page.content.items.first() {
            Some(entry) if entry.time < time => first = entry.sequence.saturating_add(1),
            _ => behind = middle,
        }
    }
    Ok(first)
}

/// Prints entries until it is interrupted, and resumes after broken connections. Without `from`: entries from now on.
pub(crate) fn run(session: &Session, from: Option<u64>) -> Outcome {
    let address = Address::of(["v1", "watch"]).with_some("namespace", session.scope.filter());
    // The stream goes on behind the last one seen, which for a given beginning is the one before it.
    let mut last = match from {
        Some(from) => from.saturating_sub(1),
        // What comes between a first connection that breaks early and the next one must not be missed.
        None => head(session)?,
    }
    .to_string();
    patiently(|attempt| {
        let mut events = session.client.stream(&address, Some(&last))?;
        attempt.connected = true;
        loop {
            let event = events.next_event().map_err(|error| Failure {
                transient: Some(Transient::Unreachable),
                ..Failure::from(error)
            });
            // Bookmarks without data move the position from which the stream is resumed, too.
            if events.last_id() != last && !events.last_id().is_empty() {
                attempt.moved = true;
                events.last_id().clone_into(&mut last);
            }
            let Some(event) = event? else { return Ok(()) };
            let json: Value = serde_json::from_str(&event.data).unwrap_or_default();
            if json.get("event").is_some() {
                print(session, &json, &read(&json)?)?;
            }
        }
    })
}

/// The last entry of the ledger.
fn head(session: &Session) -> Outcome<u64> {
    let status = session.client.get::<Status>(&Address::of(["v1", "status"]))?;
    Ok(status.content.as_of.sequence)
}

/// Follows a stream until it is interrupted: reconnects after broken connections, with increasing delays while no data
/// is received.
///
/// # Errors
/// Failures of `follow` before the first connection, and those that a new connection would not fix.
pub(crate) fn patiently(mut follow: impl FnMut(&mut Attempt) -> Outcome) -> Outcome {
    let mut attempt = Attempt::default();
    let mut wait = FIRST_WAIT;
    loop {
        attempt.moved = false;
        let failure = match follow(&mut attempt) {
            Ok(()) => Failure::general("the daemon ended the stream"),
            Err(failure) if attempt.connected && failure.transient.is_some() => failure,
            Err(failure) => return Err(failure),
        };
        if attempt.moved {
            wait = FIRST_WAIT;
        }
        if let Some(Transient::Busy(requested)) = failure.transient {
            wait = wait.max(requested);
        }
        wait = wait.min(LONGEST_WAIT);
        note(format!("{}; connecting again in {}s", failure.message, wait.as_secs()));
        thread::sleep(wait);
        wait = wait.saturating_mul(2);
    }
}

/// Prints an entry, which was received as `json`.
fn print(session: &Session, json: &Value, entry: &Entry) -> Outcome {
    let output = &session.output;
    output.line(match &output.format {
        Format::Json => json.to_string(),
        Format::Yaml => return output.value(json),
        Format::Name => entry::name(entry),
        Format::Table | Format::Wide => EntryColumns::new(entry).line(),
        Format::Csv => {
            let line = entry::table(std::slice::from_ref(entry), true).to_csv(false);
            line.trim_end().to_owned()
        }
    })
}
