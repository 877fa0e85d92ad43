//! How far this machine's clock is from that of the servers.

use async_nats::Client;
use quota_semantics::Timestamp;

use crate::{Names, wall};

/// A clock that was compared with that of the server that leads the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// By how many milliseconds this machine's clock is ahead; negative: behind.
    pub ahead: i64,
    /// By how many milliseconds that may be wrong: half of the time that the answer took.
    pub uncertainty: i64,
}

impl Skew {
    /// What a clock says that read `asked` and `answered` around the moment when another read `other`.
    #[must_use]
    pub fn between(asked: Timestamp, other: Timestamp, answered: Timestamp) -> Self {
        let milliseconds =
            |later: Timestamp, earlier: Timestamp| later.since(earlier).nanoseconds() / 1_000_000;
        let half = milliseconds(answered, asked) / 2;
        Self {
            ahead: milliseconds(asked, other) + half,
            uncertainty: half.abs(),
        }
    }

    /// Whether it differs by more than so many milliseconds for certain.
    #[must_use]
    pub fn is_beyond(self, most: i64) -> bool {
        self.ahead.abs() - self.uncertainty > most
    }
}

/// What the server that leads the stream says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// How far this machine's clock is from its own.
    pub skew: Skew,
    /// When the stream was made.
    pub created: String,
    /// The last message of the stream.
    pub last: u64,
}

/// Asks the server that leads the stream for its time, and for the stream. None: it did not answer.
pub async fn measure(client: &Client, names: &Names) -> Option<Measured> {
    let subject = format!("$JS.API.STREAM.INFO.{}", names.stream);
    let asked = wall();
    let answer = client.request(subject, bytes::Bytes::new()).await.ok()?;
    let answered = wall();
    let info: serde_json::Value = serde_json::from_slice(&answer.payload).ok()?;
    let other = info["ts"].as_str()?.parse().ok()?;
    let created = info["created"].as_str()?.to_owned();
    Some(Measured {
        skew: Skew::between(asked, other, answered),
        created,
        last: info["state"]["last_seq"].as_u64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_compared_within_what_the_answer_took() {
        let at = |milliseconds: i64| Timestamp::from_nanoseconds(milliseconds * 1_000_000);
        let skew = Skew::between(at(1_000), at(1_100), at(1_200));
        assert_eq!((skew.ahead, skew.uncertainty), (0, 100));
        let ahead = Skew::between(at(2_000), at(1_000), at(2_010));
        assert!(ahead.is_beyond(500) && !ahead.is_beyond(1_000));
        let behind = Skew::between(at(1_000), at(2_000), at(1_010));
        assert!(behind.is_beyond(500));
        // An answer that took long says little.
        assert!(!Skew::between(at(1_000), at(2_000), at(3_000)).is_beyond(500));
    }
}
