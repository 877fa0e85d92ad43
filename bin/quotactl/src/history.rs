//! `history`: usage over time, a line for each limit.

use quota_client::http::Address;
use quota_client::wire::{
    Amounts, GroupUsageHistory, GroupUsagePoint, LimitPoint, UsageHistory, UsagePoint, UsageSummary,
};
use quota_semantics::{Name, Period, quantity::Quantity};
use serde_json::Value;

use super::{
    age,
    args::History,
    failure::Outcome,
    figures::percent,
    session::Session,
    table::{Table, Text},
    unit::Units,
};

/// The number of points of a line, if no step is requested.
const POINTS: u64 = 40;

/// The maximum number of points of a line with little room.
const FEW_POINTS: usize = 16;

/// The length of the period, if none is requested.
const HOUR: Period = Period::from_secs(3600);

/// The heights of a point.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Shows used and reserved amounts over time.
pub(crate) fn run(session: &Session, args: &History) -> Outcome {
    let (from, to) = args.period.resolve(age::now(), Some(HOUR))?;
    let length = to.since(from).nanoseconds() / 1_000_000_000;
    let length = u64::try_from(length).unwrap_or_default();
    // Rounded up: no more points than fit.
    let default = u32::try_from(length.div_ceil(POINTS)).unwrap_or(u32::MAX);
    let step = args.step.unwrap_or(Period::from_secs(default.max(1)));
    let address = match &args.group {
        Some(group) => Address::of(["v1", "groups", group, "usage", "history"]),
        None => {
            let namespace = session.scope.of_one("a history")?;
            Address::in_namespace(namespace, ["usage", "history"])
        }
    };
    let address = address.with("from", from).with("to", to).with("step", step);
    let (mut lines, lagging, json) = match args.group {
        Some(_) => {
            let answer = session.client.get::<GroupUsageHistory>(&address)?;
            let GroupUsageHistory { group, points, summary, lagging, .. } = answer.content;
            let points = points.iter().map(|point: &GroupUsagePoint| {
                let limits = point.resources.iter();
                limits.map(|limit| (group.clone(), limit)).collect()
            });
            (lines(points, &summary), lagging, answer.json)
        }
        None => {
            let answer = session.client.get::<UsageHistory>(&address)?;
            let UsageHistory { points, summary, lagging, .. } = answer.content;
            let points = points.iter().map(|point: &UsagePoint| {
                let quotas = point.quotas.iter();
                let limits = quotas.flat_map(|quota| {
                    let limits = quota.resources.iter();
                    limits.map(|limit| (quota.name.clone(), limit))
                });
                limits.collect()
            });
            (lines(points, &summary), lagging, answer.json)
        }
    };
    session.note_lag(lagging);
    if let Some(wanted) = &args.resource {
        lines.retain(|line| *line.resource == **wanted);
    }
    show(session, &lines, &json)
}

fn show(session: &Session, lines: &[Line], json: &Value) -> Outcome {
    if lines.is_empty() {
        session.note_empty();
    }
    session.output.answer(json, || lines.iter().map(Line::name).collect(), |_| table(lines))
}

/// A limit over time.
struct Line {
    quota: Name,
    resource: Name,
    /// The whole period: the least and the largest sum of used and reserved, its mean, and its 95th percentile.
    whole: [Quantity; 4],
    /// The latest sum of used and reserved, if the limit exists at the end.
    now: Option<Quantity>,
    /// The latest value of the limit.
    hard: Quantity,
    /// The largest used share of the limit in each point; none where the limit did not exist.
    shares: Vec<Option<f64>>,
    /// The used share of the limit at the end.
    last: Option<f64>,
}

impl Line {
    fn name(&self) -> String {
        format!("{}/{}", self.quota, self.resource)
    }
}

/// A line for each limit that existed at any point.
fn lines<'p>(
    points: impl ExactSizeIterator<Item = Vec<(Name, &'p LimitPoint)>>,
    summary: &[UsageSummary],
) -> Vec<Line> {
    let count = points.len();
    let line = |whole: &UsageSummary| {
        let mut mean = whole.mean.taken.clone();
        // Smaller parts than thousandths are of no use to a reader; `-o json` has them.
        mean.round_up(quota_semantics::quantity::Scale::Milli);
        Some(Line {
            quota: whole.quota.clone()?,
            resource: whole.resource.clone(),
            whole: [
                whole.min.taken.clone(),
                whole.max.taken.clone(),
                mean.in_format(whole.max.taken.format()),
                whole.p95.taken.clone(),
            ],
            now: None,
            hard: whole.last.hard.clone()?,
            shares: vec![None; count],
            last: None,
        })
    };
    let mut lines: Vec<Line> = summary.iter().filter_map(line).collect();
    for (index, limits) in points.enumerate() {
        for (quota, limit) in limits {
            let found = lines
                .iter_mut()
                .find(|line| line.quota == quota && line.resource == limit.resource);
            let Some(line) = found else { continue };
            line.shares[index] = share(&limit.max, &limit.hard);
            if index + 1 == count {
                line.now = Some(limit.last.taken.clone());
                line.last = share(&limit.last, &limit.hard);
            }
        }
    }
    lines
}

fn share(amounts: &Amounts, hard: &Quantity) -> Option<f64> {
    Some(super::figures::share(hard, &amounts.taken, &Quantity::ZERO))
}

fn table(lines: &[Line]) -> Table {
    let mut table = Table::new(&[
        "QUOTA", "RESOURCE", "TAKEN", ">MIN", ">MAX", ">MEAN", ">P95", ">NOW", ">HARD", ">USE%",
    ]);
    let units = Units::of(lines.iter().map(|line| (&*line.resource, &line.hard)));
    for line in lines {
        let show = |amount| units.show(&line.resource, amount);
        let [min, max, mean, p95] = line.whole.each_ref().map(show);
        let now = line.now.as_ref().map_or_else(|| "-".to_owned(), show);
        table.row([
            line.quota.to_string().into(),
            line.resource.to_string().into(),
            Text::with_short(spark(&line.shares), Some(spark(&fewer(&line.shares)))),
            min.into(),
            max.into(),
            mean.into(),
            p95.into(),
            now.into(),
            show(&line.hard).into(),
            line.last.map_or_else(|| "-".to_owned(), percent).into(),
        ]);
    }
    table
}

/// Fewer points: the maximum of every few consecutive shares.
fn fewer(shares: &[Option<f64>]) -> Vec<Option<f64>> {
    let each = shares.len().div_ceil(FEW_POINTS).max(1);
    let most = |few: &[Option<f64>]| few.iter().flatten().copied().max_by(f64::total_cmp);
    shares.chunks(each).map(most).collect()
}

/// Shares as heights: the full height is the limit. A blank where there was no limit.
fn spark(shares: &[Option<f64>]) -> String {
    let of = |share: &Option<f64>| {
        let Some(share) = share else { return ' ' };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is from 0 to 7"
        )]
        let height = (share.clamp(0.0, 1.0) * (HEIGHTS.len() - 1) as f64).ceil() as usize;
        HEIGHTS[height]
    };
    shares.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_height_is_the_limit() {
        let shares = [None, Some(0.0), Some(0.01), Some(0.5), Some(1.0), Some(7.0)];
        assert_eq!(spark(&shares), " ▁▂▅██");
        let many = [[None, Some(0.2), Some(1.0)]; 16].concat();
        assert_eq!(fewer(&many), [Some(1.0); 16]);
        assert_eq!(fewer(&shares), shares);
    }
}
