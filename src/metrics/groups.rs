//! `openshift_clusterresourcequota_…`: groups, by the metric names of openshift-state-metrics, written at scrape time
//! from the state with a bounded number of series.

use std::collections::BTreeMap;

use quota_core::state::{GroupView, MemberView};
use quota_semantics::{Name, admission::LimitKind};
use serde::Deserialize;

use super::{
    labels::Limit,
    quotas::{Candidate, KINDS, NotReportedKinds, QuotaSource, choose, largest_share, numbers},
    table::{self, limit_reached},
    text::{head, labelled, sample},
};

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
pub(super) fn render(
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

#[cfg(test)]
mod tests;
