//! The position of a message in the stream, from its reply subject.

use quota_semantics::Timestamp;

/// The position of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessagePosition {
    /// Its sequence in the stream.
    pub(super) stream_sequence: u64,
    /// Its sequence among the messages delivered to this consumer.
    pub(super) consumer_sequence: u64,
    /// When the server received it.
    pub(super) time: Timestamp,
}

impl MessagePosition {
    /// Parses `$JS.ACK.<stream>.<consumer>.<delivered>.<stream sequence>.<consumer sequence>.<time>.<pending>`; a
    /// domain and an account may precede the stream, and further tokens may follow (the formats of NATS' ADR-15).
    pub(super) fn read(reply: &str) -> Option<Self> {
        let mut tokens = [""; 9];
        let mut count = 0;
        for token in reply.strip_prefix("$JS.ACK.")?.split('.').take(tokens.len()) {
            tokens[count] = token;
            count += 1;
        }
        let numbers = match count {
            7 => &tokens[3..6],
            9 => &tokens[5..8],
            _ => return None,
        };
        let nanoseconds = numbers[2].parse().ok()?;
        Some(Self {
            stream_sequence: numbers[0].parse().ok()?,
            consumer_sequence: numbers[1].parse().ok()?,
            time: Timestamp::from_nanoseconds(nanoseconds),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_formats_of_a_reply_are_read() {
        let place = MessagePosition {
            stream_sequence: 17,
            consumer_sequence: 3,
            time: Timestamp::from_nanoseconds(1_790_000_000_000_000_001),
        };
        for before in ["", "_.Ac0untHash.", "hub.Ac0untHash."] {
            let reply = format!("$JS.ACK.{before}OBJECTS.c0Nsum3r.1.17.3.1790000000000000001.5");
            assert_eq!(MessagePosition::read(&reply), Some(place), "{reply}");
        }
        let long = "$JS.ACK._.Ac0untHash.OBJECTS.c0Nsum3r.1.17.3.1790000000000000001.5.r4nd0m.more";
        assert_eq!(MessagePosition::read(long), Some(place));
    }

    #[test]
    fn what_is_no_place_is_not_taken_for_one() {
        for reply in [
            "",
            "_INBOX.x.y",
            "$JS.ACK.OBJECTS.c.1.17.3.1790000000000000001",
            "$JS.ACK.OBJECTS.c.1.17.3.1790000000000000001.5.6",
            "$JS.ACK.OBJECTS.c.1.x.3.1790000000000000001.5",
            "$JS.ACK.OBJECTS.c.1.17.-3.1790000000000000001.5",
            "$JS.ACK._.h.OBJECTS.c.1.17.3.99999999999999999999.5",
        ] {
            assert_eq!(MessagePosition::read(reply), None, "{reply}");
        }
    }
}
