//! How far each source has reported each kind of objects.

use std::collections::BTreeMap;

use super::State;
use crate::{
    codec::record,
    event::{Watermark, Watermarks},
};
use quota_semantics::{Name, Timestamp};

/// Kinds of all sources that are followed; what comes after that is not. In the fold, and so part of the format.
const KINDS_MAX: usize = 4096;

/// By source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    sources: BTreeMap<Name, OfSource>,
}

#[derive(Clone, Debug, Default)]
struct OfSource {
    cluster_uid: Name,
    kinds: BTreeMap<Name, OfKind>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfKind {
    /// The epoch: unknown.
    watermark: Timestamp,
    version: u64,
    is_absent: bool,
    /// Whether all objects have been listed since something of the source was lost.
    is_listed: bool,
}

record!(Progress { sources });
record!(OfSource { cluster_uid, kinds });
record!(OfKind {
    watermark,
    version,
    is_absent,
    is_listed
});

impl OfKind {
    /// Before a kind was listed, its watermark says nothing of what was lost.
    fn counts(&self) -> bool {
        self.watermark > Timestamp::EPOCH && (self.is_absent || self.is_listed)
    }
}

impl Progress {
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    pub(crate) fn advance(&mut self, watermarks: &Watermarks) {
        let source = self.sources.entry(watermarks.source.clone()).or_default();
        if !watermarks.cluster_uid.is_empty() {
            // What one cluster has shown says nothing of another one.
            if !source.cluster_uid.is_empty() && source.cluster_uid != watermarks.cluster_uid {
                source.kinds.clear();
            }
            source.cluster_uid = watermarks.cluster_uid.clone();
        }
        for reported in &watermarks.resources {
            if let Some(kind) = self.kind(&watermarks.source, &reported.resource) {
                *kind = OfKind {
                    watermark: reported.watermark,
                    version: reported.version,
                    is_absent: reported.is_absent,
                    // A kind that comes into being again has to be listed again.
                    is_listed: kind.is_listed && !reported.is_absent,
                };
            }
        }
    }

    pub(crate) fn listed(&mut self, source: &Name, resource: &Name) {
        if let Some(kind) = self.kind(source, resource) {
            kind.is_listed = true;
        }
    }

    /// Something of a source was lost: of no kind it is known any more how far it has been reported.
    pub(crate) fn lose(&mut self, source: &Name) {
        if let Some(source) = self.sources.get_mut(source) {
            source.kinds.clear();
        }
    }

    fn kind(&mut self, source: &Name, resource: &Name) -> Option<&mut OfKind> {
        let count: usize = self.sources.values().map(|of| of.kinds.len()).sum();
        let kinds = &mut self.sources.entry(source.clone()).or_default().kinds;
        let fits = count < KINDS_MAX || kinds.contains_key(resource);
        fits.then(|| kinds.entry(resource.clone()).or_default())
    }

    fn of(&self, source: &str, resource: &str) -> Option<OfKind> {
        self.sources.get(source)?.kinds.get(resource).copied()
    }
}

/// How far a source has reported a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatermarkView {
    /// As the source said last.
    pub reported: Watermark,
    /// Whether it counts: since something of the source was lost, the kind has been listed, or it does not exist.
    pub counts: bool,
}

impl State {
    /// The sources that have said how far they have reported anything, or have listed something.
    pub fn progress_sources(&self) -> impl Iterator<Item = Name> {
        self.progress.sources.keys().cloned()
    }

    /// The identity of the cluster that a source watches; empty: unknown.
    #[must_use]
    pub fn cluster_uid(&self, source: &str) -> &str {
        let source = self.progress.sources.get(source);
        source.map_or("", |source| &source.cluster_uid)
    }

    /// How far a source has reported each kind.
    pub fn watermarks(&self, source: &str) -> impl Iterator<Item = WatermarkView> {
        let source = self.progress.sources.get(source);
        let kinds = source.into_iter().flat_map(|source| &source.kinds);
        kinds.map(|(resource, kind)| WatermarkView {
            reported: Watermark {
                resource: resource.clone(),
                watermark: kind.watermark,
                version: kind.version,
                is_absent: kind.is_absent,
            },
            counts: kind.counts(),
        })
    }

    /// The version that a kind had at its watermark; 0: unknown.
    #[must_use]
    pub fn version_reported(&self, source: &str, resource: &str) -> u64 {
        let kind = self.progress.of(source, resource);
        kind.map_or(0, |kind| kind.version)
    }

    /// Up to when a source has reported a kind. None: that is unknown, or does not count before the kind was listed.
    #[must_use]
    pub fn watermark_of(&self, source: &str, resource: &str) -> Option<Timestamp> {
        let kind = self.progress.of(source, resource)?;
        kind.counts().then_some(kind.watermark)
    }

    /// Up to when a source has reported all of these kinds. None: of one of them that is unknown.
    #[must_use]
    pub fn watermark(&self, source: &str, resources: &[Name]) -> Option<Timestamp> {
        let all = resources
            .iter()
            .map(|resource| self.watermark_of(source, resource));
        all.min().flatten()
    }

    /// Whether a source has listed a kind, or said that there is none, since something of it was lost.
    #[must_use]
    pub fn is_listed(&self, source: &str, resource: &str) -> bool {
        let kind = self.progress.of(source, resource);
        kind.is_some_and(|kind| kind.is_listed || kind.is_absent)
    }
}
