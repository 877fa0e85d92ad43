//! Checks whether a stream is still the one that the cursor refers to.

use async_nats::jetstream::stream::Stream;
use quota_core::{
    event::Cursor,
    source::{self, Identity},
};
use quota_semantics::{Name, Timestamp};

use super::{Ended, one_by_one::MessageReader};

/// A time given by the server.
pub(super) fn timestamp(nanoseconds: i128) -> Timestamp {
    Timestamp::from_nanoseconds(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

/// The identity of one incarnation of a stream: its creation time.
pub(super) fn incarnation(stream: &Stream) -> Name {
    Name::from(timestamp(stream.cached_info().created.unix_timestamp_nanos()).to_string())
}

/// Compares a stream with the recorded cursor; fetches the last consumed message if necessary.
pub(super) async fn identify(
    stream: &Stream,
    messages: &MessageReader,
    cursor: Option<&Cursor>,
) -> Result<Identity, Ended> {
    let last = stream.cached_info().state.last_sequence;
    let identity = source::identify(cursor, &incarnation(stream), last);
    let (Identity::Held, Some(cursor)) = (identity, cursor) else {
        return Ok(identity);
    };
    let message = messages.at(cursor.position).await?;
    let held = message.as_ref().map(|message| (message.position.time, &*message.payload));
    Ok(source::is_what_was_consumed(cursor, held))
}
