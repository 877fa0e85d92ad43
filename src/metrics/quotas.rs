//! `kube_resourcequota`: written at scrape time from the state, with a bounded number of series.

use std::sync::atomic::{AtomicBool, Ordering};

use quota_core::{
    event::QuotaRecord,
    state::{Figure, GroupView, MemberView},
};
use quota_semantics::quantity::Quantity;

use super::{
    labels::Limit,
    table::{self, limit_reached},
    text::{head, sample},
};

/// The source of quotas, read at each scrape.
pub trait QuotaSource: Send + Sync {
    /// Visits every quota and its numbers, always in the same order.
    fn visit(&self, visitor: &mut dyn FnMut(&QuotaRecord, &[Figure]));

    /// Whether the webhook checks requests against limits for this resource.
    fn covers(&self, resource: &str) -> bool;

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
pub(super) fn largest_share<'a>(figures: impl Iterator<Item = (&'a Figure, f64)>) -> f64 {
    let shares = figures.map(|(figure, guaranteed)| {
        let [hard, used, reserved] = numbers(figure);
        match hard > 0.0 {
            true => (used + reserved + guaranteed) / hard,
            false => 1.0,
        }
    });
    shares.fold(0.0, f64::max)
}

/// Writes whole quotas, the fullest first, while they have at most `most` series together. Reports how many are left
/// out, in the metric and, when that begins, in the log. Answers how many series remain.
pub(super) fn render(text: &mut String, source: &dyn QuotaSource, most: usize) -> usize {
    let mut quotas = Vec::new();
    source.visit(&mut |_, figures| {
        let open = not_enforced(source, figures).count();
        let series = 1 + KINDS.len() * figures.len() + open;
        let fullness = largest_share(figures.iter().map(|figure| (figure, 0.0)));
        quotas.push((fullness, series));
    });
    let (exported, left) = choose(&quotas, most);
    let left_out = exported.iter().filter(|exported| !**exported).count();
    report(left_out, most);
    let mut amounts = String::new();
    let mut created = String::new();
    let mut open = String::new();
    let mut exported = exported.into_iter();
    source.visit(&mut |quota, figures| {
        // There may be more quotas than at the first visit.
        if exported.next().unwrap_or(left_out == 0) {
            write(&mut amounts, &mut created, quota, figures);
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
    head(text, &table::LIMIT_NOT_ENFORCED);
    text.push_str(&open);
    head(text, &table::QUOTAS_LEFT_OUT);
    sample(text, &table::QUOTAS_LEFT_OUT, &[], left_out as f64);
    left
}

/// Chooses what to export, given how full each item is and how many series it has: the fullest items, while they have
/// at most `most` series together. Answers whether each item is exported, and how many series remain.
pub(super) fn choose(all: &[(f64, usize)], most: usize) -> (Vec<bool>, usize) {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*b].0.total_cmp(&all[*a].0));
    let mut exported = vec![false; all.len()];
    let mut left = most;
    for place in order {
        if let Some(rest) = left.checked_sub(all[place].1) {
            left = rest;
            exported[place] = true;
        }
    }
    (exported, left)
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
    figures
        .iter()
        .filter(|figure| !source.covers(&figure.resource))
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
    sample(
        created,
        &table::KUBE_RESOURCEQUOTA_CREATED,
        &labels,
        seconds as f64,
    );
}
