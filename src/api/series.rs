//! The usage of namespaces and groups over periods of the past, in equal parts.

use axum::{extract::State, response::Response};
use quota_client::wire::{
    Amounts, GroupUsageHistory, GroupUsagePoint, LimitPoint, QuotaPoint, SumPoint, UsageHistory,
    UsagePoint, UsageSummary,
};
use quota_core::{
    event::{Actor, Entry, Sequence},
    state,
    time::{
        self, Bucket, Buckets, Changes, Key, Level, Moment, Subject, Summary, Tracker, Values,
        Wanted,
    },
};
use quota_ledger::period::Fold;
use quota_semantics::{Name, Timestamp, quantity::Quantity};
use serde::Deserialize;

use super::{
    App, Caller, Params, Target,
    problem::{FieldProblem, Problem, Reason},
};
use crate::{
    auth::Reader,
    config::Period,
    fairness::{Permit, Turn},
    history::POINTS_MAX,
};

/// Parts of a period if no step is requested.
const POINTS: i64 = 100;

/// Most figures of a series, over all its parts.
pub(super) const FIGURES_MAX: usize = 100_000;

/// Selects the parts of a period.
#[derive(Debug, Deserialize)]
pub(super) struct SeriesQuery {
    pub(super) from: Timestamp,
    pub(super) to: Option<Timestamp>,
    pub(super) step: Option<String>,
}

/// A period in equal parts.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) period: time::Period,
    pub(super) step: Period,
    pub(super) count: usize,
}

/// `GET /v1/namespaces/{namespace}/usage/history?from=TIME&to=TIME&step=DURATION`
pub(super) async fn series(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    Caller(actor): Caller,
    Params(query): Params<SeriesQuery>,
) -> Result<Response, Problem> {
    let parts = query.parts(crate::now())?;
    let head = app.ledger.read(state::State::head).await?;
    let name = namespace.clone();
    let wanted = Wanted {
        sums: true,
        quotas: true,
        namespaces: Box::new(move |other| *other == *name),
        groups: None,
    };
    let api = app.clone();
    let make = move |all: Finished, step, turn: &Turn| {
        let points = all.points.into_iter().map(|point| {
            turn.pause();
            let Point { period, sequence, .. } = point;
            let (resources, quotas) = point.shown();
            let (from, to) = (period.from, period.to);
            UsagePoint { from, to, time: to, sequence, resources, quotas }
        });
        Ok(super::large(
            turn,
            &UsageHistory {
                namespace,
                points: points.collect(),
                summary: all.summary,
                step,
                as_of: super::as_of(head),
                lagging: api.lags(),
            },
        ))
    };
    folded(&app, &actor, parts, wanted, None, make).await
}

/// `GET /v1/groups/{name}/usage/history?from=TIME&to=TIME&step=DURATION`
pub(super) async fn of_group(
    State(app): State<App>,
    Target([group]): Target<1>,
    reader: Reader,
    Caller(actor): Caller,
    Params(query): Params<SeriesQuery>,
) -> Result<Response, Problem> {
    let parts = query.parts(crate::now())?;
    let mut sight = Sight { group: group.clone(), reader, member: None };
    let read = app.ledger.read(|state| {
        let exists = state.group_record(&group).is_some();
        (exists && sight.sees(state), state.head())
    });
    let (is_seen, head) = read.await?;
    let name = group.clone();
    let wanted = Wanted {
        sums: false,
        quotas: false,
        namespaces: Box::new(|_| false),
        groups: Some(Box::new(move |other| *other == *name)),
    };
    let api = app.clone();
    let make = move |all: Finished, step, turn: &Turn| {
        if all.summary.is_empty() && !is_seen {
            let detail = format!("group {group} not found, neither now nor in this period");
            return Err(Problem::new(Reason::NotFound, detail));
        }
        let points = all.points.into_iter().map(|point| {
            turn.pause();
            let Point { period, sequence, .. } = point;
            let (_, groups) = point.shown();
            let (from, to) = (period.from, period.to);
            let resources = groups.into_iter().flat_map(|group| group.resources).collect();
            GroupUsagePoint { from, to, time: to, sequence, resources }
        });
        Ok(super::large(
            turn,
            &GroupUsageHistory {
                group,
                points: points.collect(),
                summary: all.summary,
                step,
                as_of: super::as_of(head),
                lagging: api.lags(),
            },
        ))
    };
    folded(&app, &actor, parts, wanted, Some(sight), make).await
}

/// Folds a period, and makes an answer of the numbers of its parts and of the length of each.
async fn folded(
    app: &App,
    actor: &Actor,
    parts: Parts,
    wanted: Wanted,
    sight: Option<Sight>,
    make: impl FnOnce(Finished, String, &Turn) -> Result<Response, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let (period, step) = (parts.period, parts.step.to_string());
    let make = move |series: Series, _: &state::State, _, turn: &Turn| {
        let all = series.finish(&step)?;
        make(all, step, turn)
    };
    let permit = Permit::of_past(&actor.principal);
    app.past.period(&permit, period, Series::begin(wanted, parts, sight), make).await?
}

impl SeriesQuery {
    /// The period and the length of its parts.
    pub(super) fn parts(&self, now: Timestamp) -> Result<Parts, Problem> {
        let to = self.to.map_or(now, |to| to.min(now));
        if self.from > to {
            let detail = "from is behind to, or in the future";
            return Err(Problem::new(Reason::Malformed, detail));
        }
        let span = to.since(self.from).nanoseconds();
        let step = match &self.step {
            Some(text) => text
                .parse::<Period>()
                .map_err(|error| FieldProblem::invalid("step", text, &error.to_string()))?,
            None => {
                let step = u32::try_from(span / POINTS / 1_000_000_000).unwrap_or(u32::MAX);
                Period::from_secs(step.max(1))
            }
        };
        let nanoseconds = step.span().nanoseconds();
        let whole = span.checked_div(nanoseconds).unwrap_or(i64::MAX);
        let rest = span.checked_rem(nanoseconds).unwrap_or(0);
        let count =
            usize::try_from(whole).unwrap_or(usize::MAX).saturating_add(usize::from(rest > 0));
        if nanoseconds <= 0 || count > POINTS_MAX {
            let why = format!("that would be more than {POINTS_MAX} points");
            return Err(FieldProblem::invalid("step", &step.to_string(), &why).into());
        }
        let period = time::Period { from: self.from, to };
        Ok(Parts { period, step, count })
    }
}

impl Parts {
    /// The parts without their numbers.
    pub(super) fn empty(&self) -> Vec<time::Period> {
        let step = self.step.span();
        let mut from = self.period.from;
        let next = |_| {
            let to = from.plus(step).min(self.period.to);
            let part = time::Period { from, to };
            from = to;
            part
        };
        (0..self.count).map(next).collect()
    }
}

/// Numbers that are folded over the parts of a period.
pub(super) struct Series {
    tracker: Tracker,
    changes: Figures,
    ends: Ends,
    /// Of a group: who may see it, and when the last entry was made if it may change that.
    sight: Option<Sight>,
    changed: Option<Moment>,
}

/// Who may see a group: who may read any of its members, which change.
struct Sight {
    group: Name,
    reader: Reader,
    /// A member that the caller may read, as it was found last.
    member: Option<Name>,
}

impl Sight {
    fn sees(&mut self, state: &state::State) -> bool {
        let Self { group, reader, member } = self;
        if reader.reads_all() {
            return true;
        }
        let known = state.members_view(group, member.as_slice());
        if known.is_none_or(|members| members.is_empty()) {
            let first = state.wanted_members(group, |name| reader.reads(name), 1);
            *member = first.and_then(|mut first| first.pop());
        }
        member.is_some()
    }

    /// Whether an entry may change that.
    fn is_changed_by(&self, entry: &Entry) -> bool {
        !self.reader.reads_all() && entry.event.namespace().is_none_or(|it| self.reader.reads(it))
    }
}

/// The last entry before the end of each part.
struct Ends {
    parts: Vec<time::Period>,
    sequences: Vec<Sequence>,
    last: Sequence,
}

struct Figures {
    parts: Parts,
    figures: Vec<(Key, Buckets)>,
    is_too_large: bool,
    /// The levels while the caller may not see them; none while the caller may.
    hidden: Option<Vec<Option<Level>>>,
}

/// All numbers, part by part, and the whole period.
struct Finished {
    points: Vec<Point>,
    summary: Vec<UsageSummary>,
}

struct Point {
    period: time::Period,
    sequence: Sequence,
    figures: Vec<(Key, Bucket)>,
}

impl Point {
    /// The sums of a namespace, and the limits of its quotas or of a group.
    fn shown(self) -> (Vec<SumPoint>, Vec<QuotaPoint>) {
        let (mut sums, mut limits) = (Vec::new(), Vec::<QuotaPoint>::new());
        for (key, bucket) in self.figures {
            let name = match key.subject {
                Subject::Namespace(_) => {
                    sums.extend(sum(key.resource, &bucket));
                    continue;
                }
                Subject::Quota { name, .. } | Subject::Group(name) => name,
            };
            let Some(limit) = limit(key.resource, &bucket) else {
                continue;
            };
            match limits.last_mut().filter(|last| last.name == name) {
                Some(last) => last.resources.push(limit),
                None => limits.push(QuotaPoint { name, resources: vec![limit] }),
            }
        }
        (sums, limits)
    }
}

impl Series {
    fn begin(
        wanted: Wanted,
        parts: Parts,
        mut sight: Option<Sight>,
    ) -> impl FnOnce(&state::State) -> Self + Send {
        move |state| {
            let ends =
                Ends { parts: parts.empty(), sequences: Vec::new(), last: state.head().sequence };
            let is_seen = sight.as_mut().is_none_or(|sight| sight.sees(state));
            let hidden = (!is_seen).then(Vec::new);
            let mut changes = Figures { parts, figures: Vec::new(), is_too_large: false, hidden };
            let tracker = Tracker::begin(wanted, state, &mut changes);
            Self { tracker, changes, ends, sight, changed: None }
        }
    }

    fn finish(mut self, step: &str) -> Result<Finished, Problem> {
        if self.changes.is_too_large {
            let why = format!("there are more than {FIGURES_MAX} figures in so many points");
            return Err(FieldProblem::invalid("step", step, &why).into());
        }
        self.ends.pass(Timestamp::MAX);
        let sequences = self.ends.sequences.into_iter();
        let points = self.ends.parts.into_iter().zip(sequences);
        let point = |(period, sequence)| Point { period, sequence, figures: Vec::new() };
        let mut points: Vec<Point> = points.map(point).collect();
        let mut summary = Vec::new();
        let mut figures = self.changes.figures;
        figures.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (key, buckets) in figures {
            let (buckets, whole) = buckets.finish();
            summary.extend(summary_of(&key, whole));
            for (point, bucket) in points.iter_mut().zip(buckets) {
                if bucket.used.is_some() {
                    point.figures.push((key.clone(), bucket));
                }
            }
        }
        Ok(Finished { points, summary })
    }
}

impl Fold for Series {
    fn before(&mut self, state: &state::State, entry: &Entry) {
        self.ends.pass(entry.time);
        self.ends.last = entry.sequence;
        self.tracker.before(state, entry);
        let is_changed = self.sight.as_ref().is_some_and(|sight| sight.is_changed_by(entry));
        self.changed = is_changed.then_some(Moment { time: entry.time, sequence: entry.sequence });
    }

    fn after(&mut self, state: &state::State) {
        let seen = self.sight.as_mut().zip(self.changed.take());
        let seen = seen.map(|(sight, at)| (sight.sees(state), at));
        // Hides before the levels of this entry are taken.
        if let Some((false, at)) = seen {
            self.changes.hide(at);
        }
        self.tracker.after(state, &mut self.changes);
        if let Some((true, at)) = seen {
            self.changes.show(at);
        }
    }
}

impl Ends {
    /// Notes the last entry of the parts that end before or at this time.
    fn pass(&mut self, time: Timestamp) {
        while let Some(part) = self.parts.get(self.sequences.len())
            && part.to <= time
        {
            self.sequences.push(self.last);
        }
    }
}

impl Figures {
    /// Ends all numbers until they are [shown](Self::show) again.
    fn hide(&mut self, at: Moment) {
        if self.hidden.is_none() {
            let hide = |(_, buckets): &mut (Key, Buckets)| {
                let level = buckets.level().cloned();
                buckets.set(at, None);
                level
            };
            self.hidden = Some(self.figures.iter_mut().map(hide).collect());
        }
    }

    fn show(&mut self, at: Moment) {
        let levels = self.hidden.take().into_iter().flatten();
        for ((_, buckets), level) in self.figures.iter_mut().zip(levels) {
            buckets.set(at, level);
        }
    }
}

impl Changes for Figures {
    fn change(
        &mut self,
        slot: usize,
        key: &Key,
        at: Moment,
        _: Option<&Level>,
        after: Option<&Level>,
    ) {
        // A series that is too large to answer is not kept.
        let figures = (slot + 1).saturating_mul(self.parts.count.max(1));
        if figures > FIGURES_MAX {
            self.is_too_large = true;
            self.figures = Vec::new();
        }
        if self.is_too_large {
            return;
        }
        if slot == self.figures.len() {
            let buckets = Buckets::new(self.parts.period, self.parts.step.span());
            self.figures.push((key.clone(), buckets));
        }
        let Some((_, buckets)) = self.figures.get_mut(slot) else {
            return;
        };
        match &mut self.hidden {
            None => buckets.set(at, after.cloned()),
            Some(levels) => {
                levels.resize(levels.len().max(slot + 1), None);
                levels[slot] = after.cloned();
            }
        }
    }
}

/// What an amount was in a part of a period, as far as there was such a limit.
struct Statistics {
    min: Amounts,
    max: Amounts,
    mean: Amounts,
    last: Amounts,
}

fn sum(resource: Name, bucket: &Bucket) -> Option<SumPoint> {
    // The limits of a namespace are those of its quotas.
    let Statistics { min, max, mean, last } = statistics(bucket, None)?;
    Some(SumPoint {
        resource,
        used: last.used.clone(),
        reserved: last.reserved.clone(),
        min,
        max,
        mean,
        last,
    })
}

fn limit(resource: Name, bucket: &Bucket) -> Option<LimitPoint> {
    let Statistics { min, max, mean, last } = statistics(bucket, bucket.hard.as_ref())?;
    Some(LimitPoint {
        resource,
        hard: last.hard.clone()?,
        used: last.used.clone(),
        reserved: last.reserved.clone(),
        min,
        max,
        mean,
        last,
    })
}

fn statistics(bucket: &Bucket, hard: Option<&Values>) -> Option<Statistics> {
    let (used, reserved) = (bucket.used.as_ref()?, bucket.reserved.as_ref()?);
    Some(of_values(used, reserved, bucket.taken.as_ref()?, hard))
}

fn of_values(
    used: &Values,
    reserved: &Values,
    taken: &Values,
    hard: Option<&Values>,
) -> Statistics {
    let amounts = |of: fn(&Values) -> Quantity| Amounts {
        used: of(used),
        reserved: of(reserved),
        taken: of(taken),
        hard: hard.map(of),
    };
    Statistics {
        min: amounts(|values| values.min.clone()),
        max: amounts(|values| values.max.value.clone()),
        mean: amounts(|values| decimal(&values.mean)),
        last: amounts(|values| values.last.clone()),
    }
}

/// The same number, to be written as a decimal.
fn decimal(quantity: &Quantity) -> Quantity {
    let decimal = quantity.decimal().parse();
    decimal.unwrap_or_else(|_| quantity.clone())
}

fn summary_of(key: &Key, whole: Summary) -> Option<UsageSummary> {
    let (used, reserved, taken) = (whole.used?, whole.reserved?, whole.taken?);
    let quota = match &key.subject {
        Subject::Namespace(_) => None,
        Subject::Quota { name, .. } | Subject::Group(name) => Some(name.clone()),
    };
    let hard = whole.hard.filter(|_| quota.is_some());
    let [used95, reserved95, taken95, hard95] = whole.p95;
    let Statistics { min, max, mean, last } = of_values(&used, &reserved, &taken, hard.as_ref());
    Some(UsageSummary {
        resource: key.resource.clone(),
        min,
        max,
        mean,
        last,
        p95: Amounts {
            used: used95?,
            reserved: reserved95?,
            taken: taken95?,
            hard: hard95.filter(|_| quota.is_some()),
        },
        quota,
        peak_time: taken.max.at.time,
        peak_sequence: taken.max.at.sequence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(from: &str, to: &str, step: Option<&str>) -> Result<Vec<String>, Problem> {
        let query = SeriesQuery {
            from: from.parse().unwrap(),
            to: Some(to.parse().unwrap()),
            step: step.map(str::to_owned),
        };
        let parts = query.parts("2026-01-02T00:00:00Z".parse().unwrap())?;
        let ends = parts.empty().into_iter().map(|part| part.to.to_string());
        Ok(ends.collect())
    }

    #[test]
    fn parts_are_a_step_long_and_end_with_the_present() {
        let from = "2026-01-01T23:59:57.5Z";
        let points = ends(from, "2026-01-05T00:00:00Z", Some("1s")).unwrap();
        assert_eq!(
            points,
            ["2026-01-01T23:59:58.5Z", "2026-01-01T23:59:59.5Z", "2026-01-02T00:00:00Z"]
        );
        assert_eq!(ends("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", None).unwrap().len(), 100);
        assert!(ends(from, from, Some("1h")).unwrap().is_empty());
    }

    #[test]
    fn the_number_of_parts_is_bounded() {
        let all = ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z");
        assert_eq!(ends(all.0, all.1, Some("2s")).unwrap().len(), 1800);
        for step in ["1s", "0s", "1ns", "-1s", "often"] {
            assert_eq!(
                ends(all.0, all.1, Some(step)).unwrap_err().reason(),
                Reason::Invalid,
                "{step}"
            );
        }
        assert_eq!(ends(all.1, all.0, None).unwrap_err().reason(), Reason::Malformed);
    }
}
