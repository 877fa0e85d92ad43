//! The meaning of a refused message. Pure: the last message of the stream goes in, the reaction comes out.

use std::fmt;

/// Publisher and number of a message: the content of `Nats-Msg-Id`.
///
/// Never the uid and version of an object: the server drops ids that it has seen within its duplicate window, and would
/// drop objects of a relist that were sent shortly before, so that the ledger ends existing objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageId {
    /// The id of the publisher, for as long as it publishes.
    pub instance: String,
    /// The number of the publisher's message, from 1.
    pub number: u64,
}

impl MessageId {
    /// Parses the output of [`fmt::Display`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (instance, number) = text.rsplit_once('/')?;
        Some(Self { instance: instance.to_owned(), number: number.parse().ok()? })
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.instance, self.number)
    }
}

/// The last message of the subject in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last {
    /// The sequence of the message in the stream.
    pub sequence: u64,
    /// The id of the message; none: it was not published by a bridge.
    pub id: Option<MessageId>,
}

/// The meaning of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The message is in the stream, and its acknowledgement was lost.
    Stored(u64),
    /// The expected message is the last one: retry.
    Again,
    /// Acknowledged messages are gone: claim the subject again, after this sequence, and list everything.
    Lost(u64),
    /// Another publisher is active.
    Deposed,
}

/// Judges the refusal of a message that was sent with the expected sequence `expected` (0: no message).
#[must_use]
pub fn refused(id: &MessageId, expected: u64, last: Option<&Last>) -> Verdict {
    let Some(Last { sequence, id: of }) = last else {
        return match expected {
            0 => Verdict::Again,
            _ => Verdict::Lost(0),
        };
    };
    match of {
        Some(of) if of == id => Verdict::Stored(*sequence),
        _ if *sequence == expected => Verdict::Again,
        Some(of) if of.instance == id.instance => Verdict::Lost(*sequence),
        _ => Verdict::Deposed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_judged_by_what_the_stream_holds() {
        let id = |text| MessageId::parse(text).unwrap();
        let mine = id("me/8");
        let last = |sequence, text: &str| Last { sequence, id: MessageId::parse(text) };
        for (expected, held, verdict) in [
            // The acknowledgement was lost.
            (20, Some(last(21, "me/8")), Verdict::Stored(21)),
            // A cluster that temporarily has no leader refuses as well.
            (20, Some(last(20, "me/7")), Verdict::Again),
            (0, None, Verdict::Again),
            // Purged, or deleted and recreated.
            (20, None, Verdict::Lost(0)),
            // Restored from a backup.
            (20, Some(last(12, "me/3")), Verdict::Lost(12)),
            // Another bridge has taken over, or another program publishes there.
            (20, Some(last(21, "you/1")), Verdict::Deposed),
            (20, Some(last(21, "no id")), Verdict::Deposed),
        ] {
            assert_eq!(refused(&mine, expected, held.as_ref()), verdict, "{held:?}");
        }
        assert_eq!(id("a/b/3").to_string(), "a/b/3");
        assert_eq!(MessageId::parse("x"), None);
    }
}
