//! `history`: usage over time, a line for each limit.

use quota_client::http::Address;
use quota_client::wire::{UsageHistory, UsagePoint};
use quota_semantics::{Name, Period, quantity::Quantity};

use super::{
    age,
    args::History,
    failure::Outcome,
    figures::percent,
    session::Session,
    table::{Table, Text},
    unit::in_one_unit,
};

/// The number of points of a line, if no step is requested.
const POINTS: u64 = 40;

/// The maximum number of points of a line with little room.
const FEW_POINTS: usize = 16;

/// The heights of a point.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Shows used and reserved amounts over time.
pub(crate) fn run(session: &Session, args: &History) -> Outcome {
    let namespace = session.scope.of_one("a history")?;
    let now = age::now();
    let since = args.since.get();
    let from = now.plus(quota_semantics::Span::from_nanoseconds(
        -args.since.span().nanoseconds(),
    ));
    let default = u32::try_from(since.as_secs() / POINTS).unwrap_or(u32::MAX);
    let step = args.step.unwrap_or(Period::from_secs(default.max(1)));
    let address = Address::in_namespace(namespace, ["usage", "history"])
        .with("from", from)
        .with("step", step);
    let answer = session.client.get::<UsageHistory>(&address)?;
    session.note_lag(answer.content.lagging);
    let mut lines = lines(&answer.content.points);
    if let Some(wanted) = &args.resource {
        lines.retain(|line| *line.resource == **wanted);
    }
    if lines.is_empty() {
        session.note_empty();
    }
    session.output.answer(
        &answer.json,
        || lines.iter().map(Line::name).collect(),
        |_| table(&lines),
    )
}

/// A limit over time.
struct Line {
    quota: Name,
    resource: Name,
    /// The sum of used and reserved at each point; none where the limit did not exist.
    taken: Vec<Option<Quantity>>,
    /// The latest value of the limit.
    hard: Quantity,
    /// The used share of the limit at each point; none where the limit did not exist.
    shares: Vec<Option<f64>>,
}

impl Line {
    fn name(&self) -> String {
        format!("{}/{}", self.quota, self.resource)
    }

    fn amounts(&self) -> impl Iterator<Item = &Quantity> {
        self.taken.iter().flatten()
    }
}

/// A line for each limit that existed at any point.
fn lines(points: &[UsagePoint]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        for quota in &point.quotas {
            for limit in &quota.resources {
                let found = lines
                    .iter()
                    .position(|line| line.quota == quota.name && line.resource == limit.resource);
                let at = found.unwrap_or_else(|| {
                    lines.push(Line {
                        quota: quota.name.clone(),
                        resource: limit.resource.clone(),
                        taken: vec![None; points.len()],
                        hard: limit.hard.clone(),
                        shares: vec![None; points.len()],
                    });
                    lines.len() - 1
                });
                let line = &mut lines[at];
                let used = limit.used.clone().unwrap_or_default();
                let share = super::figures::share(&limit.hard, &used, &limit.reserved);
                let mut taken = used;
                taken.add_assign(&limit.reserved);
                line.taken[index] = Some(taken);
                line.shares[index] = Some(share);
                line.hard = limit.hard.clone();
            }
        }
    }
    lines
}

fn table(lines: &[Line]) -> Table {
    let mut table = Table::new(&[
        "QUOTA", "RESOURCE", "TAKEN", ">MIN", ">MAX", ">NOW", ">HARD", ">USE%",
    ]);
    for line in lines {
        let last = line.shares.last().copied().flatten();
        let now = line.taken.last().and_then(Option::as_ref);
        let amounts = [line.amounts().min(), line.amounts().max(), now];
        let [min, max, now] = amounts.map(|amount| amount.unwrap_or(&line.hard));
        let [hard, min, max, now] = in_one_unit([&line.hard, min, max, now]);
        let mut shown = [min, max, now];
        for (text, amount) in shown.iter_mut().zip(amounts) {
            if amount.is_none() {
                *text = "-".into();
            }
        }
        let [min, max, now] = shown;
        table.row([
            line.quota.to_string().into(),
            line.resource.to_string().into(),
            Text::with_short(spark(&line.shares), Some(spark(&fewer(&line.shares)))),
            min,
            max,
            now,
            hard,
            last.map_or_else(|| "-".to_owned(), percent).into(),
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
