//! The naive fold of watermarks: the last report of each source and kind, and the entry since which it counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    event::{Entry, Event, Sequence},
    state::State,
};
use quota_semantics::{Name, Timestamp};

/// Most kinds of all sources that are tracked. The format says so.
const KINDS_MAX: usize = 4096;

/// By source and kind: the last report and its entry, and the entry that listed the kind. By source: the cluster, and
/// the entry of the last loss.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    reported: BTreeMap<(Name, Name), (Sequence, Timestamp, bool)>,
    listed: BTreeMap<(Name, Name), Sequence>,
    absent: BTreeMap<(Name, Name), Sequence>,
    clusters: BTreeMap<Name, Name>,
    lost: BTreeMap<Name, Sequence>,
    /// The kinds that each source has reported or listed since the last loss.
    tracked: BTreeSet<(Name, Name)>,
}

impl Progress {
    pub(super) fn beginning_with(state: &State, sources: impl Iterator<Item = Name>) -> Self {
        let mut progress = Self::default();
        for source in sources {
            for view in state.watermarks(&source) {
                let key = (source.clone(), view.reported.resource.clone());
                progress.tracked.insert(key.clone());
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
                        self.lose(source, at);
                    }
                }
                for reported in &watermarks.resources {
                    let key = (source.clone(), reported.resource.clone());
                    if !self.tracks(&key) {
                        continue;
                    }
                    if reported.is_absent {
                        self.absent.insert(key.clone(), at);
                    }
                    self.reported.insert(key, (at, reported.watermark, reported.is_absent));
                }
            }
            Event::ResourceListed { source, resource } => {
                let key = (source.clone(), resource.clone());
                if self.tracks(&key) {
                    self.listed.insert(key, at);
                }
            }
            Event::SourceGapped { .. } | Event::SourceReset { .. } => {
                self.lose(&entry.actor.principal, at);
            }
            _ => {}
        }
    }

    fn lose(&mut self, source: &Name, at: Sequence) {
        self.lost.insert(source.clone(), at);
        self.tracked.retain(|(other, _)| other != source);
    }

    /// Whether a kind is tracked; tracks it from now on, if there is room.
    fn tracks(&mut self, key: &(Name, Name)) -> bool {
        if self.tracked.len() < KINDS_MAX {
            self.tracked.insert(key.clone());
        }
        self.tracked.contains(key)
    }

    /// The watermark of a kind of a source; none: it is unknown.
    fn watermark(&self, key: &(Name, Name)) -> Option<Timestamp> {
        let lost = self.lost.get(&key.0).copied().unwrap_or(0);
        let (at, watermark, is_absent) = *self.reported.get(key)?;
        let gone = self.absent.get(key).copied().unwrap_or(0).max(lost);
        let is_listed = self.listed.get(key).is_some_and(|listed| *listed > gone);
        // An entry that names another cluster also marks the loss, so the entry itself counts.
        let is_known = watermark > Timestamp::EPOCH;
        (is_known && at >= lost && (is_absent || is_listed)).then_some(watermark)
    }

    /// Lists where a state differs from the naive fold.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::Naive,
        event::{Actor, Watermark, Watermarks},
    };

    #[test]
    fn kinds_beyond_the_bound_are_ignored_by_both_folds() {
        let (mut naive, mut state, mut sequence) = (Naive::default(), State::default(), 0);
        let mut apply = |naive: &mut Naive, event| {
            sequence += 1;
            let entry =
                Entry { sequence, time: Timestamp::EPOCH, actor: Actor::named("nats"), event };
            naive.apply(&entry);
            state.apply(&entry);
            assert_eq!(naive.differences(&state), Vec::<String>::new());
            assert_eq!(Naive::beginning_with(&state).differences(&state), Vec::<String>::new());
        };
        let bookmark = |number: usize| {
            let kind = |kind: usize| Watermark {
                resource: format!("kind-{kind}").into(),
                watermark: Timestamp::from_nanoseconds(1),
                version: 1,
                is_absent: true,
                failing: Name::default(),
            };
            Event::WatermarksAdvanced(Box::new(Watermarks {
                source: "nats".into(),
                cluster_uid: "cluster".into(),
                instance: Name::default(),
                resources: (number * 1024..(number + 1) * 1024).map(kind).collect(),
            }))
        };
        for number in 0..5 {
            apply(&mut naive, bookmark(number));
        }
        let gap = Event::SourceGapped { source: "nats".into(), first: 1, last: 2 };
        apply(&mut naive, gap);
        for number in [4, 0, 1, 2, 3] {
            apply(&mut naive, bookmark(number));
        }
    }
}
