//! `kube_resourcequota`: written at scrape time from the state, with a bounded number of series.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicBool, Ordering},
};

use quota_core::{
    event::QuotaRecord,
    state::{Figure, GroupView, MemberView},
};
use quota_semantics::{Name, admission::LimitKind, quantity::Quantity};

use super::{
    labels::Limit,
    table::{self, limit_reached},
    text::{head, sample},
};
use crate::enforcement::NotReported;

/// The source of quotas, read at each scrape.
pub trait QuotaSource: Send + Sync {
    /// Visits every quota, the principal that set it, its numbers, and the share that is taken of the limits that bind
    /// its resources, which may be those of a group; always in the same order.
    #[expect(clippy::type_complexity, reason = "what is visited has four parts")]
    fn visit(&self, visitor: &mut dyn FnMut(&QuotaRecord, &Name, &[Figure], f64));

    /// How many requests a quota of a namespace, or a group in any namespace, has denied since the start.
    fn denials(&self, kind: LimitKind, namespace: &Name, name: &Name) -> u64;

    /// Visits each namespace with limits, a principal that set one of its quotas, and its room for each resource; always in
    /// the same order.
    fn visit_room(&self, visitor: &mut dyn FnMut(&Name, &Name, &[RoomFigure]));

    /// Whether the webhook checks requests against limits for this resource.
    fn covers(&self, resource: &str) -> bool;

    /// The kind that a limit counts, if nobody reports it.
    fn not_reported(&self, limit: &str) -> Option<NotReported>;

    /// Visits every group, always in the same order.
    fn visit_groups(&self, visitor: &mut dyn FnMut(&GroupView));

    /// Visits the usage of each namespace of a group.
    fn visit_members(&self, group: &str, visitor: &mut dyn FnMut(&MemberView));
}

/// The values of the label `type`.
pub(super) const KINDS: [&str; 3] = ["hard", "used", "reserved"];

/// The numbers in base units (cores, bytes, objects), in the order of [`KINDS`].
pub(super) fn numbers(figure: &Figure) -> [f64; 3] {
    let used = figure.used.as_ref().map_or(0.0, Quantity::to_f64);
    [figure.hard.to_f64(), used, figure.reserved.to_f64()]
}

/// The largest share of a limit that is not available, given what of each limit is guaranteed to others. A limit of 0 is
/// full.
pub(crate) fn largest_share<'a>(figures: impl Iterator<Item = (&'a Figure, f64)>) -> f64 {
    let shares = figures.map(|(figure, guaranteed)| {
        let [hard, used, reserved] = numbers(figure);
        match hard > 0.0 {
            true => (used + reserved + guaranteed) / hard,
            false => 1.0,
        }
    });
    shares.fold(0.0, f64::max)
}

/// Writes whole quotas while they have at most `most` series together: each principal that set any has its share, of
/// that each of its namespaces, and of that the fullest quotas come first. Reports how many are left out, in the metric
/// and, when that begins, in the log. Returns how many series remain.
pub(super) fn render(
    text: &mut String,
    source: &dyn QuotaSource,
    most: usize,
    kinds: &mut NotReportedKinds,
) -> usize {
    let mut quotas = Vec::new();
    source.visit(&mut |quota, owner, figures, bound| {
        kinds.note(source, figures);
        let open = not_enforced(source, figures).count();
        quotas.push(Candidate {
            principal: owner.clone(),
            namespace: quota.namespace.clone(),
            fullness: largest_share(figures.iter().map(|figure| (figure, 0.0))).max(bound),
            series: 2 + KINDS.len() * figures.len() + open,
        });
    });
    let (exported, left) = choose(&quotas, most);
    let left_out = exported.iter().filter(|exported| !**exported).count();
    report(left_out, most);
    let mut amounts = String::new();
    let mut created = String::new();
    let mut denials = String::new();
    let mut open = String::new();
    let mut exported = exported.into_iter();
    source.visit(&mut |quota, _, figures, _| {
        // There may be more quotas than at the first visit.
        if exported.next().unwrap_or(left_out == 0) {
            write(&mut amounts, &mut created, quota, figures);
            let count = source.denials(LimitKind::ResourceQuota, &quota.namespace, &quota.name);
            let labels = [&*quota.name, &quota.namespace];
            sample(&mut denials, &table::QUOTA_DENIALS, &labels, count as f64);
            for figure in not_enforced(source, figures) {
                let labels = [&*quota.name, &quota.namespace, &figure.resource];
                sample(&mut open, &table::LIMIT_NOT_ENFORCED, &labels, 1.0);
            }
        }
    });
    head(text, &table::KUBE_RESOURCEQUOTA);
    text.push_str(&amounts);
    head(text, &table::KUBE_RESOURCEQUOTA_CREATED);
    text.push_str(&created);
    head(text, &table::QUOTA_DENIALS);
    text.push_str(&denials);
    head(text, &table::LIMIT_NOT_ENFORCED);
    text.push_str(&open);
    head(text, &table::QUOTAS_LEFT_OUT);
    sample(text, &table::QUOTAS_LEFT_OUT, &[], left_out as f64);
    left
}

/// What may be exported.
pub(super) struct Candidate {
    /// The principal that set it.
    pub(super) principal: Name,
    pub(super) namespace: Name,
    /// The largest share of a limit that is not available.
    pub(super) fullness: f64,
    /// The number of its series.
    pub(super) series: usize,
}

/// The kinds that limits count and nobody reports, by name, with the reason.
#[derive(Default)]
pub(super) struct NotReportedKinds(BTreeMap<String, String>);

impl NotReportedKinds {
    /// Most kinds: the authors of quotas may invent names.
    const MAX: usize = 256;

    pub(super) fn note<'a>(
        &mut self,
        source: &dyn QuotaSource,
        figures: impl IntoIterator<Item = &'a Figure>,
    ) {
        for figure in figures {
            if self.0.len() < Self::MAX
                && let Some(NotReported { kind, reason }) = source.not_reported(&figure.resource)
            {
                self.0.insert(kind.to_string(), reason.label().to_owned());
            }
        }
    }

    pub(super) fn render(&self, text: &mut String) {
        head(text, &table::KIND_NOT_REPORTED);
        for (kind, reason) in &self.0 {
            sample(text, &table::KIND_NOT_REPORTED, &[kind, reason], 1.0);
        }
    }
}

/// Chooses what to export, with at most `most` series together. The candidates of a namespace come in turn, the fullest
/// first; the namespaces of a principal take turns by the series that they have got, and so do principals. So nobody
/// displaces what others export by exporting more. Returns whether each is exported, and how many series remain.
pub(super) fn choose(all: &[Candidate], most: usize) -> (Vec<bool>, usize) {
    // Sorting is stable: those that have got as much stay in the order before.
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*b].fullness.total_cmp(&all[*a].fullness));
    in_turn(&mut order, all, |it| (&it.principal, &it.namespace));
    in_turn(&mut order, all, |it| &it.principal);
    let mut exported = vec![false; all.len()];
    let mut left = most;
    for place in order {
        if let Some(rest) = left.checked_sub(all[place].series) {
            left = rest;
            exported[place] = true;
        }
    }
    (exported, left)
}

/// Lets owners take turns: orders candidates by the series of those of the same owner that come before.
fn in_turn<'a, K: Eq + std::hash::Hash>(
    order: &mut [usize],
    all: &'a [Candidate],
    owner: impl Fn(&'a Candidate) -> K,
) {
    let mut series = HashMap::new();
    let mut before = vec![0; all.len()];
    for &place in &*order {
        let got = series.entry(owner(&all[place])).or_insert(0_usize);
        before[place] = *got;
        *got += all[place].series;
    }
    order.sort_by_key(|place| before[*place]);
}

fn report(left_out: usize, most: usize) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let some = left_out > 0;
    if some {
        limit_reached(Limit::MetricsSeries);
    }
    if some && !REPORTED.swap(some, Ordering::Relaxed) {
        tracing::warn!(
            left_out,
            "limits.metrics_series" = most,
            "quotas are left out of the metrics"
        );
    } else if !some {
        REPORTED.store(false, Ordering::Relaxed);
    }
}

/// The limits that the webhook does not check.
fn not_enforced<'a>(
    source: &dyn QuotaSource,
    figures: &'a [Figure],
) -> impl Iterator<Item = &'a Figure> {
    figures.iter().filter(|figure| !source.covers(&figure.resource))
}

fn write(amounts: &mut String, created: &mut String, quota: &QuotaRecord, figures: &[Figure]) {
    let labels = [&*quota.name, &*quota.namespace];
    for figure in figures {
        for (kind, number) in KINDS.into_iter().zip(numbers(figure)) {
            let labels = [labels[0], labels[1], &figure.resource, kind];
            sample(amounts, &table::KUBE_RESOURCEQUOTA, &labels, number);
        }
    }
    let seconds = quota.created.nanoseconds().max(0) / 1_000_000_000;
    sample(created, &table::KUBE_RESOURCEQUOTA_CREATED, &labels, seconds as f64);
}

/// The room for a resource in a namespace.
pub struct RoomFigure {
    /// The resource.
    pub resource: Name,
    /// The amount that can be reserved, in base units.
    pub available: f64,
    /// The share of the limit that is not available.
    pub share: f64,
    /// Whether a quota or a group leaves least.
    pub kind: LimitKind,
    /// Its name.
    pub name: Name,
}

/// Writes the room of whole namespaces while it has at most `left` series: those of one principal in turn with those of
/// others, the fullest first.
pub(super) fn render_room(text: &mut String, source: &dyn QuotaSource, left: usize) {
    let mut namespaces = Vec::new();
    source.visit_room(&mut |namespace, owner, figures| {
        namespaces.push(Candidate {
            principal: owner.clone(),
            namespace: namespace.clone(),
            fullness: figures.iter().map(|figure| figure.share).fold(0.0, f64::max),
            series: figures.len(),
        });
    });
    let (exported, _) = choose(&namespaces, left);
    let left_out = exported.iter().filter(|exported| !**exported).count();
    if left_out > 0 {
        limit_reached(Limit::MetricsSeries);
    }
    head(text, &table::AVAILABLE);
    let mut exported = exported.into_iter();
    source.visit_room(&mut |namespace, _, figures| {
        // There may be more namespaces than at the first visit.
        if exported.next().unwrap_or(left_out == 0) {
            for figure in figures {
                let labels = [namespace, &*figure.resource, kind(figure.kind), &figure.name];
                sample(text, &table::AVAILABLE, &labels, figure.available);
            }
        }
    });
    head(text, &table::NAMESPACES_LEFT_OUT);
    sample(text, &table::NAMESPACES_LEFT_OUT, &[], left_out as f64);
}

const fn kind(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::ResourceQuota => "ResourceQuota",
        LimitKind::ClusterResourceQuota => "ClusterResourceQuota",
    }
}
