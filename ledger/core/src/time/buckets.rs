//! One number over equal parts of a period.

use super::{Level, Moment, Peak, Percentile, Period, Tail, meter::integrate, nanoseconds};
use quota_semantics::{Span, Timestamp, quantity::Quantity};

/// The fold of one number over the buckets `[t, t + step)` of a period: feed it every change, in order. The last bucket
/// ends with the period.
#[derive(Clone, Debug)]
pub struct Buckets {
    period: Period,
    step: Span,
    since: Moment,
    level: Option<Level>,
    open: Part,
    whole: Part,
    tails: [Tail; 4],
    buckets: Vec<Bucket>,
}

/// A number in one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The part of the period.
    pub period: Period,
    /// What was used; none: there was no such number in this bucket.
    pub used: Option<Values>,
    /// What was reserved.
    pub reserved: Option<Values>,
    /// Both together.
    pub taken: Option<Values>,
    /// The limit; none: there was none in this bucket.
    pub hard: Option<Values>,
    /// What it was at the end; none: there was no such number then.
    pub last: Option<Level>,
}

/// A number in a whole period.
#[derive(Clone, Debug)]
pub struct Summary {
    /// What was used.
    pub used: Option<Values>,
    /// What was reserved.
    pub reserved: Option<Values>,
    /// Both together.
    pub taken: Option<Values>,
    /// The limit.
    pub hard: Option<Values>,
    /// The 95th percentiles of the same.
    pub p95: [Option<Quantity>; 4],
}

/// An amount in a part of a period, as far as there was such a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    /// The least.
    pub min: Quantity,
    /// The largest, and when it was first reached.
    pub max: Peak,
    /// The mean over time.
    pub mean: Quantity,
    /// The last.
    pub last: Quantity,
}

/// Used, reserved, both, and hard in a part of the period that is not over.
type Part = [Curve; 4];

#[derive(Clone, Debug, Default)]
struct Curve {
    nanoseconds: u64,
    integral: Quantity,
    /// Least, largest and last.
    values: Option<(Quantity, Peak, Quantity)>,
}

impl Curve {
    fn hold(&mut self, value: &Quantity, since: Moment, nanoseconds: u64) {
        self.nanoseconds += nanoseconds;
        integrate(&mut self.integral, value, nanoseconds);
        let peak = || Peak { value: value.clone(), at: since };
        match &mut self.values {
            None => self.values = Some((value.clone(), peak(), value.clone())),
            Some((min, max, last)) => {
                if value < min {
                    min.clone_from(value);
                }
                if *value > max.value {
                    *max = peak();
                }
                last.clone_from(value);
            }
        }
    }

    fn finish(self) -> Option<Values> {
        let (min, max, last) = self.values?;
        Some(Values {
            mean: self.integral.divided(self.nanoseconds).in_format(last.format()),
            min,
            max,
            last,
        })
    }
}

impl Buckets {
    /// Buckets of a positive length for a period.
    #[must_use]
    pub fn new(period: Period, step: Span) -> Self {
        let tail = || Tail::new(Percentile::P95, period.nanoseconds());
        Self {
            period,
            step: step.max(Span::from_nanoseconds(1)),
            since: Moment { time: period.from, sequence: 0 },
            level: None,
            open: Part::default(),
            whole: Part::default(),
            tails: [tail(), tail(), tail(), tail()],
            buckets: Vec::new(),
        }
    }

    /// From this moment on the number has this level; none: there is no such number. What was before the period holds
    /// at its beginning; what is behind it is ignored.
    pub fn set(&mut self, at: Moment, level: Option<Level>) {
        if at.time >= self.period.to && at.time > self.period.from {
            return;
        }
        self.hold(at.time);
        let time = at.time.max(self.since.time);
        self.since = Moment { time, ..at };
        self.level = level;
    }

    /// The level since the last change.
    #[must_use]
    pub const fn level(&self) -> Option<&Level> {
        self.level.as_ref()
    }

    /// The end of the bucket that is open.
    fn end(&self) -> Timestamp {
        let begin = self.begin();
        begin.plus(self.step).min(self.period.to)
    }

    fn begin(&self) -> Timestamp {
        let last = self.buckets.last();
        last.map_or(self.period.from, |bucket| bucket.period.to)
    }

    fn hold(&mut self, until: Timestamp) {
        while until >= self.end() && self.begin() < self.period.to {
            self.hold_in_bucket(self.end());
            self.close();
        }
        self.hold_in_bucket(until);
    }

    fn hold_in_bucket(&mut self, until: Timestamp) {
        let time = nanoseconds(self.since.time, until);
        if time == 0 {
            return;
        }
        if let Some(level) = &self.level {
            let taken = level.demand();
            let amounts = [&level.used, &level.reserved, &taken].map(Some);
            let values = amounts.into_iter().chain([level.limit()]);
            for (at, value) in values.enumerate() {
                let Some(value) = value else { continue };
                self.open[at].hold(value, self.since, time);
                self.whole[at].hold(value, self.since, time);
                self.tails[at].hold(value, time);
            }
        }
        self.since.time = until;
    }

    fn close(&mut self) {
        let period = Period { from: self.begin(), to: self.end() };
        let [used, reserved, taken, hard] = std::mem::take(&mut self.open).map(Curve::finish);
        self.buckets.push(Bucket { period, used, reserved, taken, hard, last: self.level.clone() });
    }

    /// The buckets, oldest first, and the whole period.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Bucket>, Summary) {
        self.hold(self.period.to);
        let time = |at: usize| self.whole[at].nanoseconds;
        let p95 = |at: usize| self.tails[at].percentile(Percentile::P95, time(at)).cloned();
        let p95 = [p95(0), p95(1), p95(2), p95(3)];
        let [used, reserved, taken, hard] = self.whole.map(Curve::finish);
        let summary = Summary { used, reserved, taken, hard, p95 };
        (self.buckets, summary)
    }
}
