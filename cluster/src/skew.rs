//! The difference between this machine's clock and that of the servers.

use async_nats::Client;
use quota_semantics::Timestamp;

use crate::{
    Names,
    stream::{self, Error},
    wall,
};

/// The difference to the clock of the server that leads the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// The milliseconds by which this machine's clock is ahead; negative: behind.
    pub ahead: i64,
    /// The uncertainty in milliseconds: half of the round-trip time.
    pub uncertainty: i64,
}

impl Skew {
    /// Compares a clock that read `requested` and `answered` before and after the moment when the other clock read
    /// `other`.
    #[must_use]
    pub fn between(requested: Timestamp, other: Timestamp, answered: Timestamp) -> Self {
        let milliseconds =
            |later: Timestamp, earlier: Timestamp| later.since(earlier).nanoseconds() / 1_000_000;
        let half = milliseconds(answered, requested) / 2;
        Self {
            ahead: milliseconds(requested, other) + half,
            uncertainty: half.abs(),
        }
    }

    /// How many milliseconds ago, at most, the other clock showed `other`, if this one shows `here` now.
    #[must_use]
    pub fn age(self, other: Timestamp, here: Timestamp) -> u64 {
        let apart = here.since(other).nanoseconds() / 1_000_000;
        let age = apart - self.ahead + self.uncertainty;
        u64::try_from(age).unwrap_or(0)
    }

    /// Whether the difference is certain to exceed this many milliseconds.
    #[must_use]
    pub fn is_beyond(self, most: i64) -> bool {
        self.ahead.abs() - self.uncertainty > most
    }
}

/// The answer of the server that leads the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The difference between this machine's clock and that of the server.
    pub skew: Skew,
    /// The creation time of the stream.
    pub created: String,
    /// The last message of the stream.
    pub last: u64,
}

/// Requests the time and the state of the stream from the server that leads it.
///
/// # Errors
/// [`Error::Missing`]: there is no such stream; [`Error::Server`]: no answer.
pub async fn measure(client: &Client, names: &Names) -> Result<Measured, Error> {
    let requested = wall();
    let found = stream::look(client, names).await?;
    let answered = wall();
    let other = found.at;
    let other = other.ok_or_else(|| Error::Server("an answer without a time".to_owned()))?;
    Ok(Measured {
        skew: Skew::between(requested, other, answered),
        created: found.created,
        last: found.last,
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
        assert_eq!(skew.age(at(5_000), at(5_050)), 150);
        assert_eq!(ahead.age(at(5_000), at(6_005)), 5);
        assert_eq!(behind.age(at(5_000), at(3_000)), 0);
        // A slow answer has a large uncertainty.
        assert!(!Skew::between(at(1_000), at(2_000), at(3_000)).is_beyond(500));
    }
}
