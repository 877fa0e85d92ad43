//! Whether a stream is still the one that the cursor stands in.

use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use quota_ledger::{Name, Timestamp, event::Cursor};

use super::Ended;

/// What is to be done with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// It has never been consumed.
    New,
    /// It is the same: go on behind the cursor.
    Same,
    /// It is another one by the same name, or went back in time: begin anew, for this reason.
    Renewed(&'static str),
}

/// A time of the server's.
pub(super) fn timestamp(nanoseconds: i128) -> Timestamp {
    Timestamp::from_nanoseconds(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

/// What tells one life of a stream from another: when it was created.
pub(super) fn incarnation(stream: &Stream) -> Name {
    Name::from(timestamp(stream.cached_info().created.unix_timestamp_nanos()).to_string())
}

/// Compares a stream with what is known of it.
pub(super) async fn identify(stream: &Stream, cursor: Option<&Cursor>) -> Result<Identity, Ended> {
    let Some(cursor) = cursor else {
        return Ok(Identity::New);
    };
    if cursor.incarnation != incarnation(stream) {
        return Ok(Identity::Renewed("it was created anew"));
    }
    if stream.cached_info().state.last_sequence < cursor.position {
        return Ok(Identity::Renewed(
            "it ends before the last message consumed",
        ));
    }
    // A cursor that no message was consumed for proves nothing.
    if cursor.position == 0 || cursor.time == Timestamp::EPOCH {
        return Ok(Identity::Same);
    }
    match stream.get_raw_message(cursor.position).await {
        Ok(message) => {
            let time = timestamp(message.time.unix_timestamp_nanos());
            let same = time == cursor.time && crc32fast::hash(&message.payload) == cursor.checksum;
            Ok(if same {
                Identity::Same
            } else {
                Identity::Renewed("it holds another message where the cursor stands")
            })
        }
        // It has been removed since, as messages are.
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(Identity::Same),
        Err(error) => Err(Ended::failed("read the last message consumed")(error)),
    }
}
