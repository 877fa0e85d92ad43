//! How far sources have reported each kind, naively: what was said last, and since when it means anything.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    event::{Entry, Event, Sequence},
    state::State,
};
use quota_semantics::{Name, Timestamp};

/// By source and kind: what was said last, and by which entry; the entry that listed it; and by source the cluster,
/// and the entry with which something was lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    reported: BTreeMap<(Name, Name), (Sequence, Timestamp, bool)>,
    listed: BTreeMap<(Name, Name), Sequence>,
    absent: BTreeMap<(Name, Name), Sequence>,
    clusters: BTreeMap<Name, Name>,
    lost: BTreeMap<Name, Sequence>,
}

impl Progress {
    pub(super) fn beginning_with(state: &State, sources: impl Iterator<Item = Name>) -> Self {
        let mut progress = Self::default();
        for source in sources {
            for view in state.watermarks(&source) {
                let key = (source.clone(), view.reported.resource.clone());
                if view.reported.watermark > Timestamp::EPOCH {
                    let reported = (1, view.reported.watermark, view.reported.is_absent);
                    progress.reported.insert(key.clone(), reported);
                }
                if view.counts || state.is_listed(&source, &view.reported.resource) {
                    progress.listed.insert(key, 1);
                }
            }
            let cluster = Name::from(state.cluster_uid(&source));
            progress.clusters.insert(source, cluster);
        }
        progress
    }

    pub(super) fn apply(&mut self, entry: &Entry) {
        let at = entry.sequence;
        match &entry.event {
            Event::WatermarksAdvanced(watermarks) => {
                let source = &watermarks.source;
                let cluster = watermarks.cluster_uid.clone();
                if !cluster.is_empty() {
                    let before = self.clusters.insert(source.clone(), cluster.clone());
                    if before.is_some_and(|before| !before.is_empty() && before != cluster) {
                        self.lost.insert(source.clone(), at);
                    }
                }
                for reported in &watermarks.resources {
                    let key = (source.clone(), reported.resource.clone());
                    if reported.is_absent {
                        self.absent.insert(key.clone(), at);
                    }
                    self.reported
                        .insert(key, (at, reported.watermark, reported.is_absent));
                }
            }
            Event::ResourceListed { source, resource } => {
                self.listed.insert((source.clone(), resource.clone()), at);
            }
            Event::SourceGapped { .. } | Event::SourceReset { .. } => {
                self.lost.insert(entry.actor.principal.clone(), at);
            }
            _ => {}
        }
    }

    /// Up to when a source has reported a kind, if that is known.
    fn watermark(&self, key: &(Name, Name)) -> Option<Timestamp> {
        let lost = self.lost.get(&key.0).copied().unwrap_or(0);
        let (at, watermark, is_absent) = *self.reported.get(key)?;
        let gone = self.absent.get(key).copied().unwrap_or(0).max(lost);
        let is_listed = self.listed.get(key).is_some_and(|listed| *listed > gone);
        // What is lost with the entry that says it: the cluster is another one.
        (at >= lost && (is_absent || is_listed)).then_some(watermark)
    }

    /// Where a state is not what the entries amount to.
    pub(super) fn differences(&self, state: &State) -> Vec<String> {
        let keys: BTreeSet<_> = self.reported.keys().chain(self.listed.keys()).collect();
        let differ = keys.into_iter().filter(|key| {
            let (source, resource) = key;
            state.watermark_of(source, resource) != self.watermark(key)
        });
        differ
            .map(|(source, resource)| format!("the watermark of {resource} by {source}"))
            .collect()
    }
}
