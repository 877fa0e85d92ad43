//! `kube_resourcequota` and `openshift_clusterresourcequota_…`: written at scrape time from the state, with a bounded
//! number of series.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    sync::atomic::{AtomicBool, Ordering},
};

use quota_core::{
    event::QuotaRecord,
    state::{Figure, GroupView, MemberView},
};
use quota_semantics::{Name, admission::LimitKind, quantity::Quantity};
use quota_service::metrics::Metric;
use serde::Deserialize;

use super::table::{self, Limit, limit_reached};
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

// `openshift_clusterresourcequota_…`: groups, by the metric names of openshift-state-metrics, written at scrape time
// from the state with a bounded number of series.

/// The additional type of a group's series: amounts guaranteed to other groups.
const GUARANTEED: &str = "guaranteed";

/// The groups to export. Only administrators set groups, so they are chosen before the quotas of tenants.
pub(super) struct ChosenGroups {
    exported: Vec<bool>,
    /// Each group, and the number of series of its namespaces.
    members: Vec<(Name, usize)>,
    /// How many series remain.
    pub(super) left: usize,
}

impl ChosenGroups {
    /// Chooses whole groups without their namespaces, the fullest first, while they have at most `most` series together.
    pub(super) fn new(source: &dyn QuotaSource, most: usize, kinds: &mut NotReportedKinds) -> Self {
        let (mut candidates, mut members) = (Vec::new(), Vec::new());
        source.visit_groups(&mut |view| {
            kinds.note(source, view.figures.iter().map(|limit| &limit.figure));
            candidates.push(Candidate {
                principal: Name::default(),
                namespace: Name::default(),
                fullness: fullness(view),
                series: series(view),
            });
            members
                .push((view.record.name.clone(), view.members * view.figures.len() * KINDS.len()));
        });
        let (exported, left) = choose(&candidates, most);
        Self { exported, members, left }
    }
}

/// Writes the chosen groups, and then the usage of their namespaces, while that has at most `left` series. Returns how many
/// series remain.
pub(super) fn render_groups(
    text: &mut String,
    source: &dyn QuotaSource,
    groups: &ChosenGroups,
    mut left: usize,
) -> usize {
    let ChosenGroups { exported, members, .. } = groups;
    let left_out = exported.iter().filter(|exported| !**exported).count();
    let mut pages = Pages::default();
    let mut chosen = exported.iter();
    source.visit_groups(&mut |view| {
        // There may be more groups than at the first visit.
        if chosen.next().copied().unwrap_or(left_out == 0) {
            pages.write(view);
            let name = &view.record.name;
            let count = source.denials(LimitKind::ClusterResourceQuota, &Name::default(), name);
            sample(&mut pages.denials, &table::GROUP_DENIALS, &[name], count as f64);
        }
    });
    let mut without_namespaces = 0;
    for ((group, series), exported) in members.iter().zip(exported) {
        match left.checked_sub(*series).filter(|_| *exported) {
            Some(rest) => {
                left = rest;
                source.visit_members(group, &mut |member| pages.write_member(group, member));
            }
            None => without_namespaces += 1,
        }
    }
    if without_namespaces > 0 {
        limit_reached(Limit::MetricsSeries);
    }
    pages.finish(text);
    for (metric, left_out) in [
        (&table::GROUPS_LEFT_OUT, left_out),
        (&table::GROUP_NAMESPACES_LEFT_OUT, without_namespaces),
    ] {
        head(text, metric);
        sample(text, metric, &[], left_out as f64);
    }
    left
}

/// Series of a group without its namespaces: its limits, its selector, its labels, and its creation time.
fn series(view: &GroupView) -> usize {
    let selector = &view.record.spec.selector;
    let labels = selector.labels.as_ref();
    let labels =
        labels.map_or(0, |selector| selector.match_labels.len() + selector.match_expressions.len());
    let kinds = KINDS.len() + 1 - usize::from(is_each(view));
    3 + view.figures.len() * kinds + labels + selector.annotations.len()
}

/// Whether the limits are those of each namespace alone: the sums over all namespaces are no share of them.
fn is_each(view: &GroupView) -> bool {
    view.record.spec.extensions.each
}

/// The largest share of a limit that is not available.
fn fullness(view: &GroupView) -> f64 {
    let limits = view.figures.iter().filter(|_| !is_each(view));
    largest_share(limits.map(|limit| (&limit.figure, limit.guaranteed_to_others.to_f64())))
}

/// The text of each metric.
#[derive(Default)]
struct Pages {
    usage: String,
    namespaces: String,
    selector: String,
    created: String,
    labels: String,
    denials: String,
}

impl Pages {
    fn write(&mut self, view: &GroupView) {
        let record = &view.record;
        let name: &str = &record.name;
        for limit in &view.figures {
            let guaranteed = (GUARANTEED, limit.guaranteed_to_others.to_f64());
            let amounts = KINDS.into_iter().zip(numbers(&limit.figure));
            let amounts = amounts.skip(usize::from(is_each(view)));
            for (kind, number) in amounts.chain([guaranteed]) {
                let labels = [name, &limit.figure.resource, kind];
                sample(&mut self.usage, &table::GROUP_USAGE, &labels, number);
            }
        }
        self.write_selector(view);
        let created = record.created.nanoseconds() as f64 / 1e9;
        sample(&mut self.created, &table::GROUP_CREATED, &[name], created);
        let of_group = labels_of(&record.metadata);
        let of_group = of_group.iter().map(|(key, value)| (&**key, &**value));
        let labels = std::iter::once(("name", name)).chain(of_group);
        labelled(&mut self.labels, &table::GROUP_LABELS, labels, 1.0);
    }

    fn write_selector(&mut self, view: &GroupView) {
        let selector = &view.record.spec.selector;
        let mut write = |kind: &str, key: &str, value: &str, operator: &str, values: &str| {
            let labels = [&view.record.name, kind, key, value, operator, values];
            sample(&mut self.selector, &table::GROUP_SELECTOR, &labels, 1.0);
        };
        for (key, value) in &selector.annotations {
            write("annotation", key, value, "", "");
        }
        if let Some(labels) = &selector.labels {
            for (key, value) in &labels.match_labels {
                write("match-labels", key, value, "", "");
            }
            for expression in &labels.match_expressions {
                let values: Vec<&str> = expression.values.iter().map(Name::as_str).collect();
                write(
                    "match-expressions",
                    &expression.key,
                    "",
                    &expression.operator,
                    &values.join(","),
                );
            }
        }
    }

    fn write_member(&mut self, group: &str, member: &MemberView) {
        for figure in &member.figures {
            for (kind, number) in KINDS.into_iter().zip(numbers(figure)) {
                let labels = [group, &figure.resource, kind, &member.namespace];
                let metric = &table::GROUP_NAMESPACE_USAGE;
                sample(&mut self.namespaces, metric, &labels, number);
            }
        }
    }

    fn finish(self, text: &mut String) {
        for (metric, page) in [
            (&table::GROUP_USAGE, self.usage),
            (&table::GROUP_NAMESPACE_USAGE, self.namespaces),
            (&table::GROUP_SELECTOR, self.selector),
            (&table::GROUP_CREATED, self.created),
            (&table::GROUP_LABELS, self.labels),
            (&table::GROUP_DENIALS, self.denials),
        ] {
            head(text, metric);
            text.push_str(&page);
        }
    }
}

/// A group's labels, renamed to valid Prometheus label names as kube-state-metrics does. If two get the same name, the
/// first is kept: a duplicate label would invalidate the whole scrape.
fn labels_of(metadata: &str) -> BTreeMap<String, String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Metadata {
        labels: Option<BTreeMap<String, String>>,
    }
    let metadata: Metadata = serde_json::from_str(metadata).unwrap_or_default();
    let mut labels = BTreeMap::new();
    for (key, value) in metadata.labels.unwrap_or_default() {
        let allowed = |character: char| match character.is_ascii_alphanumeric() {
            true => character,
            false => '_',
        };
        let name: String = key.chars().map(allowed).collect();
        labels.entry(format!("label_{name}")).or_insert(value);
    }
    labels
}

// The Prometheus text format, for values that are read at scrape time.

/// Writes the help and the type of a metric family.
pub(super) fn head(text: &mut String, metric: &Metric) {
    let _ = writeln!(text, "# HELP {} {}", metric.name, metric.help);
    let _ = writeln!(text, "# TYPE {} {}", metric.name, metric.kind.name());
}

/// One sample, its label values in the order of the metric's labels.
pub(super) fn sample(text: &mut String, metric: &Metric, values: &[&str], number: f64) {
    debug_assert_eq!(metric.labels.len(), values.len());
    let names = metric.labels.iter().map(|label| label.name);
    labelled(text, metric, names.zip(values.iter().copied()), number);
}

/// One sample with these labels. An empty value equals an absent label.
pub(super) fn labelled<'l>(
    text: &mut String,
    metric: &Metric,
    labels: impl Iterator<Item = (&'l str, &'l str)>,
    number: f64,
) {
    text.push_str(metric.name);
    let mut separator = '{';
    for (name, value) in labels.filter(|(_, value)| !value.is_empty()) {
        text.push(separator);
        separator = ',';
        text.push_str(name);
        text.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                character => text.push(character),
            }
        }
        text.push('"');
    }
    if separator == ',' {
        text.push('}');
    }
    let _ = match number {
        f64::INFINITY => writeln!(text, " +Inf"),
        f64::NEG_INFINITY => writeln!(text, " -Inf"),
        number => writeln!(text, " {number}"),
    };
}
