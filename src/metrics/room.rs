//! `quota_ledger_available`: what binds each namespace, written at scrape time from the state with a bounded number of
//! series.

use quota_semantics::{Name, admission::LimitKind};

use super::{
    labels::Limit,
    quotas::{Candidate, QuotaSource, choose},
    table::{self, limit_reached},
    text::{head, sample},
};

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
pub(super) fn render(text: &mut String, source: &dyn QuotaSource, left: usize) {
    let mut namespaces = Vec::new();
    source.visit_room(&mut |namespace, owner, figures| {
        namespaces.push(Candidate {
            principal: owner.clone(),
            namespace: namespace.clone(),
            fullness: figures
                .iter()
                .map(|figure| figure.share)
                .fold(0.0, f64::max),
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
                let labels = [
                    namespace,
                    &*figure.resource,
                    kind(figure.kind),
                    &figure.name,
                ];
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
