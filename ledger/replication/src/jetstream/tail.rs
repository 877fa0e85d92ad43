//! The end of a stream that may have to be recreated, and the claim of the one node that recreates it.

use std::{pin::pin, time::Duration};

use crate::protocol::{DecodeError, Kind, Message};
use async_nats::{Client, jetstream};
use futures::StreamExt as _;
use quota_journal::Durable;
use quota_semantics::Timestamp;

use crate::jetstream::{
    Names,
    stream::{self, Error, Found, server},
    wall,
};

/// The prefix of a claim. Readers of the log ignore a claim, since no ledger wrote it.
const CLAIM: &str = "quota-ledger makes this stream anew: ";

/// How long a claim prevents other nodes from recreating the stream.
const CLAIMED: Duration = Duration::from_secs(120);

/// How long after its claim a node may still delete the stream.
pub const REMOVABLE: Duration = Duration::from_secs(30);

/// How many messages are requested at a time: an idle leader ends the stream with heartbeats, hours of them.
const AHEAD: usize = 128;

/// The end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The position of the ledger there. None: no message in the stream determines it.
    pub end: Option<Durable>,
    /// The node that recreates the stream.
    pub claimed_by: Option<String>,
}

/// Reads the end of a stream.
///
/// # Errors
/// [`Error::Missing`], [`Error::Server`], also if a message cannot be understood.
pub async fn read(client: &Client, names: &Names, found: &Found) -> Result<Tail, Error> {
    let stream = stream::get(&jetstream::new(client.clone()), names).await?;
    let mut tail = Tail { end: None, claimed_by: None };
    let stream = &stream;
    let backwards = futures::stream::iter((found.first.max(1)..=found.last).rev());
    let read = backwards.map(|sequence| async move {
        let message = stream.get_raw_message(sequence).await;
        message.map(|message| (sequence, message))
    });
    let mut read = pin!(read.buffered(AHEAD));
    while let Some(message) = read.next().await {
        let (sequence, message) = message.map_err(|error| server(&error))?;
        match Message::decode(&message.payload) {
            Ok(Message { kind: Kind::Genesis { sequence, time }, previous: hash, .. }) => {
                tail.end = Some(Durable { sequence, hash, time });
            }
            Ok(message) => tail.end = message.kind.into_batch().map(|batch| batch.end()),
            Err(DecodeError::Foreign) if sequence == found.last => {
                let at = i64::try_from(message.time.unix_timestamp_nanos()).unwrap_or(i64::MAX);
                let age = wall().since(Timestamp::from_nanoseconds(at)).nanoseconds();
                let is_fresh =
                    u128::try_from(age).is_ok_and(|age| age < CLAIMED.as_nanos()) || age < 0;
                let text = String::from_utf8_lossy(&message.payload);
                let claim = text.strip_prefix(CLAIM).filter(|_| is_fresh);
                tail.claimed_by = claim.map(str::to_owned);
            }
            Err(DecodeError::Foreign) => {}
            Err(error) => return Err(server(&format!("message {sequence}: {error}"))),
        }
        if tail.end.is_some() {
            break;
        }
    }
    Ok(tail)
}

/// Claims the stream in the given state, for a node that recreates it. Only one of several concurrent claims is stored,
/// since each expects the same last message. Returns whether this one is.
///
/// # Errors
/// [`Error::Missing`], [`Error::Server`]: the claim may be stored.
pub async fn claim(
    client: &Client,
    names: &Names,
    found: &Found,
    claimant: &str,
) -> Result<bool, Error> {
    let context = jetstream::new(client.clone());
    let stream = stream::get(&context, names).await?;
    let claim = format!("{CLAIM}{claimant}").into_bytes();
    stream::append(&context, &stream, names, found.last, claim).await
}
