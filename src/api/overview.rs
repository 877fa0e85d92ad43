//! Usage: of one namespace, and of all by how full their quotas are, those that need attention first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::{extract::State, response::Response};
use quota_client::wire::{
    BoundBy, Fullest, NamespaceCounts, NamespacePage, NamespaceUsage, QuotaUsage, ResourceUsage,
    Room, Total, Usage,
};
use quota_core::{
    event::{Entry, NamespaceRecord, Sequence},
    state::{self, GroupFigure, Head, LimitView, LimitsView, Totals},
    time::{self, Buckets, Changes, Key, Level, Moment, Subject, Tracker, Values, Wanted},
};
use quota_ledger::period::Fold;
use quota_semantics::{
    Name, Timestamp,
    admission::LimitKind,
    quantity::{Format, Quantity},
    resource::ResourceList,
};
use serde::{Deserialize, Serialize};

use super::{
    App, Caller, Params, Target, When,
    problem::{FieldProblem, Problem, Reason},
    series::{FIGURES_MAX, Parts, SeriesQuery},
    token,
};
use crate::{
    auth::{Principal, Reader, Role},
    fairness::{Permit, Turn},
    label_selector::LabelSelector,
    render::labels_of,
};

/// Limits that are read while the state is locked once; a namespace without limits counts as one.
const LIMITS_AT_ONCE: usize = 10_000;

/// From this taken share on, a limit is at risk.
const AT_RISK: f64 = 0.9;

/// The order of a list of namespaces; equal ones are sorted by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Sort {
    /// The fullest first, namespaces without limits last.
    #[default]
    Fullness,
    /// Those with most pending reservations first.
    Pending,
    /// By name.
    Name,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OverviewQuery {
    /// Only namespaces whose names contain this text.
    search: Option<String>,
    /// Only namespaces whose labels match.
    label_selector: Option<String>,
    sort: Option<Sort>,
    at: Option<Timestamp>,
    sequence: Option<Sequence>,
    limit: Option<usize>,
    #[serde(rename = "continue")]
    after: Option<String>,
}

/// The position of a namespace in the list: the highest rank first, then those without one, ties by name. By fullness the
/// rank is the share: it is not negative, and non-negative floats sort by their bits.
type FullnessOrder = (Reverse<Option<u64>>, Name);

/// The data that is read of a namespace.
struct NamespaceView {
    limits: LimitsView,
    reservations: usize,
    observed: Option<Arc<NamespaceRecord>>,
}

impl NamespaceView {
    fn of(state: &state::State, namespace: &Name) -> Self {
        Self {
            limits: state.limits_view(namespace),
            reservations: state.pending_count_in(namespace),
            observed: state.namespace_record(namespace).cloned(),
        }
    }
}

/// The first namespaces after a position.
struct Best {
    after: Option<FullnessOrder>,
    most: usize,
    labels: LabelSelector,
    sort: Sort,
    /// The number of namespaces that were offered and match.
    total: usize,
    counts: NamespaceCounts,
    sight: Sight,
    found: BTreeMap<FullnessOrder, NamespaceUsage>,
}

impl Best {
    fn count(&mut self, share: Option<f64>, pending: usize) {
        let counts = &mut self.counts;
        counts.pending += pending;
        match share {
            Some(share) if share > 1.0 => counts.over += 1,
            Some(share) if share >= 1.0 => counts.full += 1,
            Some(share) if share >= AT_RISK => counts.at_risk += 1,
            _ => {}
        }
    }

    fn offer(&mut self, namespace: &Name, seen: &NamespaceView) {
        let labels = labels_of(namespace, seen.observed.as_deref());
        if !self.labels.is_empty() && !self.labels.matches(&labels) {
            return;
        }
        self.total += 1;
        let fullest = fullest(&seen.limits);
        let share = fullest.as_ref().map(|fullest| fullest.share);
        self.count(share, seen.reservations);
        let rank = match self.sort {
            Sort::Fullness => share.map(f64::to_bits),
            Sort::Pending => Some(seen.reservations as u64),
            Sort::Name => None,
        };
        let place = (Reverse(rank), namespace.clone());
        let is_full = self.found.len() == self.most;
        if self.after.as_ref().is_some_and(|after| place <= *after)
            || (is_full && self.found.last_key_value().is_none_or(|(last, _)| place > *last))
        {
            return;
        }
        let shown = NamespaceUsage {
            namespace: namespace.clone(),
            labels,
            quotas: seen.limits.quotas.len(),
            reservations: seen.reservations,
            fullest: fullest.map(|fullest| fullest.shown(self.sight)),
        };
        self.found.insert(place, shown);
        if self.found.len() > self.most {
            self.found.pop_last();
        }
    }
}

/// The taken share of a limit: infinite if the limit is zero and something is taken.
fn share(limit: &GroupFigure) -> f64 {
    share_of(&limit.taken(), &limit.figure.hard)
}

fn share_of(taken: &Quantity, hard: &Quantity) -> f64 {
    let (taken, hard) = (taken.to_f64().max(0.0), hard.to_f64());
    match (hard > 0.0, taken > 0.0) {
        (true, _) => taken / hard,
        (false, true) => f64::INFINITY,
        (false, false) => 0.0,
    }
}

/// The limit of which the largest share is taken.
struct FullestLimit {
    limit: LimitView,
    /// Its numbers, in its list.
    place: usize,
    share: f64,
}

impl FullestLimit {
    /// A key to compare limits. Those that deny nothing come after all others.
    const fn rank(&self) -> (bool, f64) {
        (self.limit.is_enforced, self.share)
    }

    fn shown(mut self, sight: Sight) -> Fullest {
        let is_seen = sight.sees(&self.limit);
        let limit = self.limit.figures.swap_remove(self.place);
        let available = limit.available();
        let figure = limit.figure;
        Fullest {
            quota: self.limit.name,
            kind: self.limit.kind,
            resource: figure.resource,
            hard: figure.hard,
            used: is_seen.then(|| figure.used.unwrap_or_default()),
            reserved: is_seen.then_some(figure.reserved),
            available,
            share: Some(self.share).filter(|share| share.is_finite()),
        }
    }
}

/// The fullest limit of a namespace.
fn fullest(limits: &LimitsView) -> Option<FullestLimit> {
    let of = |limit: LimitView| {
        let shares = limit.figures.iter().map(share).enumerate();
        // The first among equals, so that the answer is stable.
        let (place, share) =
            shares.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        Some(FullestLimit { limit, place, share })
    };
    let all = limits.views().filter_map(of);
    all.reduce(|best, next| match next.rank() > best.rank() {
        true => next,
        false => best,
    })
}

/// `GET /v1/usage`: the fullest first; of now, or `?at=TIME`, or `?sequence=N`
pub(super) async fn list(
    State(app): State<App>,
    principal: Principal,
    Caller(actor): Caller,
    Params(query): Params<OverviewQuery>,
) -> Result<Response, Problem> {
    let limit = super::limit(query.limit, app.page)?;
    let after: Option<(Option<u64>, Name)> = super::after(query.after.as_deref())?;
    let mut best = Best {
        after: after.map(|(rank, name)| (Reverse(rank), name)),
        most: limit + 1,
        labels: LabelSelector::parse(query.label_selector.as_deref().unwrap_or_default())
            .map_err(|why| Problem::new(Reason::Malformed, why))?,
        sort: query.sort.unwrap_or_default(),
        total: 0,
        counts: NamespaceCounts::default(),
        sight: Sight::of(&principal),
        found: BTreeMap::new(),
    };
    let search = query.search.unwrap_or_default();
    let reader = Reader::of(&principal);
    let is_wanted = move |name: &Name| name.contains(&*search) && reader.reads(name);
    let (at, sequence) = (query.at, query.sequence);
    if at.is_none() && sequence.is_none() {
        let (as_of, lagging) = of_now(&app, &mut best, is_wanted).await?;
        return page_of(best, limit, as_of, lagging);
    }
    let view = move |state: &state::State| {
        let wanted = state.namespaces("").filter(|name| is_wanted(name));
        let seen = wanted.map(|name| (name.clone(), NamespaceView::of(state, name)));
        (seen.collect::<Vec<_>>(), state.head())
    };
    let amounts = |(seen, _): &(Vec<(Name, NamespaceView)>, Head)| {
        let of = |(_, seen): &(Name, NamespaceView)| 1 + seen.limits.amounts();
        seen.iter().map(of).sum()
    };
    let make = move |(seen, as_of): (Vec<(Name, NamespaceView)>, Head), lagging, turn: &Turn| {
        for (name, seen) in &seen {
            turn.pause();
            best.offer(name, seen);
        }
        page_of(best, limit, as_of, lagging)
    };
    let when = When { at, sequence };
    super::answer(&app, &actor.principal, &when, view, amounts, make).await?
}

/// The page of the best namespaces, and where the next one begins if there are more than `limit`.
fn page_of(best: Best, limit: usize, as_of: Head, lagging: bool) -> Result<Response, Problem> {
    let mut found: Vec<(FullnessOrder, NamespaceUsage)> = best.found.into_iter().collect();
    let next = super::cut(&mut found, limit, |((rank, name), _)| token(&(rank.0, name)))?;
    Ok(super::ok(&NamespacePage {
        items: found.into_iter().map(|(_, shown)| shown).collect(),
        total: best.total,
        counts: best.counts,
        next,
        as_of: super::as_of(as_of),
        lagging,
    }))
}

/// Reads all namespaces without locking the state for long.
async fn of_now(
    app: &App,
    best: &mut Best,
    is_wanted: impl Fn(&Name) -> bool,
) -> Result<(Head, bool), Problem> {
    let before = app.ledger.before_peeks();
    let mut from = Some(Name::from(""));
    while let Some(after) = from.take() {
        let mut some = Vec::new();
        from = app.ledger.peek(|state| {
            let mut work = 0;
            for name in state.namespaces(&after) {
                work += 1;
                if is_wanted(name) {
                    let seen = NamespaceView::of(state, name);
                    work += seen.limits.amounts();
                    some.push((name.clone(), seen));
                }
                if work >= LIMITS_AT_ONCE {
                    return Some(name.clone());
                }
            }
            None
        });
        for (name, seen) in &some {
            best.offer(name, seen);
        }
        tokio::task::yield_now().await;
    }
    // The namespaces read are durable once the ledger is durable up to this head.
    let head = app.ledger.read_after(before, state::State::head).await?;
    Ok((head, app.lags()))
}

#[derive(Debug, Deserialize)]
pub(super) struct TrendQuery {
    /// Names, separated by commas.
    namespaces: String,
    from: Timestamp,
    to: Option<Timestamp>,
    step: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trend<'a> {
    namespaces: &'a [Name],
    step: String,
    points: Vec<Point>,
    as_of: Head,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lagging: bool,
}

/// The share of the fullest quota of each namespace in a part of the period, in the order of the request: the last, the
/// least, the largest and the mean one. Null without a limit, with usage of a limit of zero, and for a namespace that the
/// caller may not read.
#[derive(Serialize)]
struct Point {
    from: Timestamp,
    to: Timestamp,
    time: Timestamp,
    shares: Vec<Option<f64>>,
    min: Vec<Option<f64>>,
    max: Vec<Option<f64>>,
    mean: Vec<Option<f64>>,
}

/// The share of the fullest limit of each namespace, folded over the parts of a period.
struct Fullness {
    tracker: Tracker,
    shares: Shares,
}

struct Shares {
    places: BTreeMap<Name, usize>,
    namespaces: Vec<(BTreeMap<usize, f64>, Buckets)>,
}

impl Fullness {
    fn begin(state: &state::State, names: &[Name], parts: &Parts, reader: Reader) -> Self {
        let places: BTreeMap<Name, usize> = names.iter().cloned().zip(0..).collect();
        let buckets = || Buckets::new(parts.period, parts.step.span());
        let mut shares = Shares {
            namespaces: places.values().map(|_| (BTreeMap::new(), buckets())).collect(),
            places: places.clone(),
        };
        let wanted = Wanted {
            sums: false,
            quotas: true,
            namespaces: Box::new(move |name| places.contains_key(name) && reader.reads(name)),
            groups: None,
        };
        Self { tracker: Tracker::begin(wanted, state, &mut shares), shares }
    }

    fn points(self, parts: &Parts) -> Vec<Point> {
        let point = |part: time::Period| Point {
            from: part.from,
            to: part.to,
            time: part.to,
            shares: Vec::new(),
            min: Vec::new(),
            max: Vec::new(),
            mean: Vec::new(),
        };
        let mut points: Vec<Point> = parts.empty().into_iter().map(point).collect();
        for (_, buckets) in self.shares.namespaces {
            let (buckets, _) = buckets.finish();
            for (point, bucket) in points.iter_mut().zip(buckets) {
                let number = |of: fn(&Values) -> &Quantity| {
                    bucket.used.as_ref().map(|values| of(values).to_f64())
                };
                // The last one is of the end: no earlier limit.
                let last = bucket.last.as_ref();
                point.shares.push(last.map(|last| last.used.to_f64()));
                point.min.push(number(|values| &values.min));
                point.max.push(number(|values| &values.max.value));
                point.mean.push(number(|values| &values.mean));
            }
        }
        points
    }
}

impl Fold for Fullness {
    fn before(&mut self, state: &state::State, entry: &Entry) {
        self.tracker.before(state, entry);
    }

    fn after(&mut self, state: &state::State) {
        self.tracker.after(state, &mut self.shares);
    }
}

impl Changes for Shares {
    fn change(
        &mut self,
        slot: usize,
        key: &Key,
        at: Moment,
        _: Option<&Level>,
        after: Option<&Level>,
    ) {
        let Subject::Quota { namespace, .. } = &key.subject else {
            return;
        };
        let place = self.places.get(namespace).copied();
        let Some((limits, buckets)) = place.and_then(|place| self.namespaces.get_mut(place)) else {
            return;
        };
        match after {
            Some(level) => limits.insert(slot, share_of(&level.demand(), &level.hard)),
            None => limits.remove(&slot),
        };
        let fullest = limits.values().copied().max_by(f64::total_cmp);
        let level = fullest.filter(|share| share.is_finite()).map(|share| {
            #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
            let billionths = (share * 1e9).round() as i64;
            let share = Quantity::from_scaled(billionths, -9, Format::DecimalSI);
            Level::new(share, Quantity::ZERO, None)
        });
        buckets.set(at, level);
    }
}

/// `GET /v1/usage/history?namespaces=A,B&from=TIME&to=TIME&step=DURATION`
pub(super) async fn trend(
    State(app): State<App>,
    reader: Reader,
    Caller(actor): Caller,
    Params(query): Params<TrendQuery>,
) -> Result<Response, Problem> {
    let named = query.namespaces.split(',').filter(|name| !name.is_empty());
    let count = named.clone().count();
    let mut seen = BTreeSet::new();
    let names = named.filter(|name| seen.insert(*name));
    let names: Vec<Name> = names.map(Name::from).collect();
    let series = SeriesQuery { from: query.from, to: query.to, step: query.step };
    let parts = series.parts(crate::now())?;
    let wrong = if count > app.page {
        Some(format!("more than {} names", app.page))
    } else if names.len().saturating_mul(parts.count) > FIGURES_MAX {
        Some(format!("more than {FIGURES_MAX} figures in so many points"))
    } else {
        None
    };
    if let Some(wrong) = wrong {
        return Err(FieldProblem::invalid("namespaces", &query.namespaces, &wrong).into());
    }
    let as_of = app.ledger.read(state::State::head).await?;
    let listed = names.clone();
    let permit = Permit::of_past(&actor.principal);
    let begin = {
        let parts = parts.clone();
        move |state: &state::State| Fullness::begin(state, &listed, &parts, reader.clone())
    };
    let (period, step) = (parts.period, parts.step.to_string());
    let make = move |fullness: Fullness, _: &state::State, _, _: &Turn| fullness.points(&parts);
    let points = app.past.period(&permit, period, begin, make).await?;
    Ok(super::ok(&Trend { namespaces: &names, step, points, as_of, lagging: app.lags() }))
}

// Usage, and the limits that it counts against.

/// A namespace's usage, as read from a state.
struct UsageView {
    totals: Totals,
    limits: LimitsView,
    head: Head,
}

impl UsageView {
    fn of(state: &state::State, namespace: &Name) -> Self {
        Self {
            totals: state.totals(namespace),
            limits: state.limits_view(namespace),
            head: state.head(),
        }
    }

    /// The number of amounts that the answer lists.
    fn amounts(&self) -> usize {
        self.totals.used.len() + self.totals.reserved.len() + self.limits.amounts()
    }

    /// The limits with their numbers. There may be many.
    fn limits(&self, turn: &Turn) -> Vec<LimitView> {
        self.limits.views().inspect(|_| turn.pause()).collect()
    }

    fn sums(&self, limits: &[LimitView]) -> Vec<Total> {
        let limited = limits.iter().flat_map(|limit| &limit.figures);
        sums(&self.totals, limited.map(|limit| &limit.figure.resource))
    }
}

/// The limits of a namespace, as far as a caller may see them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    reads_groups: bool,
}

impl Sight {
    pub(super) fn of(principal: &Principal) -> Self {
        Self { reads_groups: principal.may_everywhere(Role::Read) }
    }

    /// Whether the caller may see the amounts of a limit. Those of a group are amounts of other namespaces, too.
    pub(super) const fn sees(self, limit: &LimitView) -> bool {
        self.reads_groups || !limit.is_shared
    }

    fn room(self, limits: &[LimitView]) -> BTreeMap<Name, Room> {
        let room = state::room(limits).into_iter();
        let shown = room.map(|(resource, state::Room { bound_by, figure })| {
            let room =
                Room { available: figure.available(), bound_by: self.bound_by(bound_by, figure) };
            (resource.clone(), room)
        });
        shown.collect()
    }

    fn bound_by(self, limit: &LimitView, of: &GroupFigure) -> BoundBy {
        let seen = self.sees(limit).then_some(of);
        let others = seen.map(|of| of.guaranteed_to_others.clone());
        BoundBy {
            kind: limit.kind,
            name: limit.name.clone(),
            hard: of.figure.hard.clone(),
            used: seen.map(|of| of.figure.used.clone().unwrap_or_default()),
            reserved: seen.map(|of| of.figure.reserved.clone()),
            guaranteed_to_others: others.filter(|others| !others.is_zero()),
        }
    }
}

/// `GET /v1/namespaces/{namespace}/usage`, of now, or `?at=TIME`, or `?sequence=N`
pub(super) async fn usage(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    principal: Principal,
    Caller(actor): Caller,
    Params(when): Params<When>,
) -> Result<Response, Problem> {
    let name = namespace.clone();
    let view = move |state: &state::State| UsageView::of(state, &name);
    let sight = Sight::of(&principal);
    let make = move |seen: UsageView, lagging, turn: &Turn| {
        let limits = seen.limits(turn);
        super::large(
            turn,
            &Usage {
                namespace,
                resources: seen.sums(&limits),
                room: sight.room(&limits),
                quotas: quotas(limits),
                as_of: super::as_of(seen.head),
                lagging,
            },
        )
    };
    let amounts = UsageView::amounts;
    super::answer(&app, &actor.principal, &when, view, amounts, make).await
}

fn quotas(limits: Vec<LimitView>) -> Vec<QuotaUsage> {
    let quotas = limits.into_iter().filter(|limit| limit.kind == LimitKind::ResourceQuota);
    let shown = quotas.map(|quota| QuotaUsage {
        name: quota.name,
        resources: quota.figures.into_iter().map(limit).collect(),
    });
    shown.collect()
}

fn sums<'a>(totals: &'a Totals, limited: impl Iterator<Item = &'a Name>) -> Vec<Total> {
    let counted = totals.used.names().chain(totals.reserved.names());
    let names: BTreeSet<&Name> = counted.chain(limited).collect();
    let of = |list: &ResourceList, name: &str| list.get(name).cloned().unwrap_or_default();
    let sum = |resource: &Name| Total {
        resource: resource.clone(),
        used: of(&totals.used, resource),
        reserved: of(&totals.reserved, resource),
    };
    names.into_iter().map(sum).collect()
}

fn limit(limit: GroupFigure) -> ResourceUsage {
    let available = limit.available();
    let figure = limit.figure;
    ResourceUsage {
        resource: figure.resource,
        hard: figure.hard,
        used: figure.used,
        reserved: figure.reserved,
        available,
        guaranteed_to_others: None,
    }
}
