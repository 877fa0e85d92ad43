//! How far each source has reported each kind of objects.

use std::collections::BTreeMap;

use super::State;
use crate::{
    codec::record,
    event::{RelistScope, Watermark, Watermarks},
};
use quota_semantics::{Name, Timestamp};

/// Most kinds of all sources that are tracked; further ones are ignored. Part of the fold, and so of the format.
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

#[derive(Clone, Debug, Default)]
struct OfKind {
    /// The epoch stands for unknown.
    watermark: Timestamp,
    version: u64,
    is_absent: bool,
    /// Whether all objects have been listed since the last loss.
    is_listed: bool,
    /// Why the source cannot list or watch the kind; empty: it can.
    failing: Name,
}

record!(Progress { sources });
record!(OfSource { cluster_uid, kinds });
record!(OfKind { watermark, version, is_absent, is_listed, failing });

impl OfKind {
    /// Whether the watermark counts. After a loss it does not count until the kind is listed.
    fn counts(&self) -> bool {
        self.watermark > Timestamp::EPOCH && (self.is_absent || self.is_listed)
    }

    fn view(&self, resource: &Name) -> WatermarkView {
        WatermarkView {
            reported: Watermark {
                resource: resource.clone(),
                watermark: self.watermark,
                version: self.version,
                is_absent: self.is_absent,
                failing: self.failing.clone(),
            },
            counts: self.counts(),
        }
    }

    /// Whether the source lists the kind, or has done so.
    fn is_there(&self) -> bool {
        !self.is_absent && (self.watermark > Timestamp::EPOCH || self.is_listed)
    }
}

impl Progress {
    pub(crate) fn advance(&mut self, watermarks: &Watermarks) {
        let source = self.sources.entry(watermarks.source.clone()).or_default();
        if !watermarks.cluster_uid.is_empty() {
            // Watermarks of another cluster do not count.
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
                    // A kind that is created again has to be listed again.
                    is_listed: kind.is_listed && !reported.is_absent,
                    failing: reported.failing.clone(),
                };
            }
        }
    }

    pub(crate) fn listed(&mut self, source: &Name, resource: &Name) {
        if let Some(kind) = self.kind(source, resource) {
            kind.is_listed = true;
        }
    }

    /// Records a loss: no watermark of the source counts any more.
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

    fn of(&self, source: &str, resource: &str) -> Option<&OfKind> {
        self.sources.get(source)?.kinds.get(resource)
    }
}

/// How far a source has reported a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatermarkView {
    /// The last report of the source.
    pub reported: Watermark,
    /// Whether it counts: since the last loss the kind has been listed, or the cluster does not have it.
    pub counts: bool,
}

impl State {
    /// The sources that have reported watermarks or listings.
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
        kinds.map(|(resource, kind)| kind.view(resource))
    }

    /// How far a source has reported a kind; none: not at all.
    #[must_use]
    pub fn report(&self, source: &str, resource: &Name) -> Option<WatermarkView> {
        let kind = self.progress.of(source, resource)?;
        Some(kind.view(resource))
    }

    /// The scopes of a source whose recorded objects are right only when the source has listed them again.
    ///
    /// A kind that the source has neither listed nor reported as present would be awaited for ever: its objects may come by
    /// HTTP, or the cluster may not have the kind any more. A source without any progress may list every kind, since its
    /// progress may have been lost with its events. Charged kinds are always awaited: their objects were counted by another
    /// rule.
    pub fn awaited_resets<'a>(&'a self, source: &'a Name) -> impl Iterator<Item = &'a RelistScope> {
        let progress = self.progress.sources.get(source);
        let kinds = progress.map(|progress| &progress.kinds).filter(|kinds| !kinds.is_empty());
        let is_awaited = move |kind: &Name| {
            self.charging().contains(kind)
                || kinds.is_none_or(|kinds| kinds.get(kind).is_some_and(OfKind::is_there))
        };
        let resets = self.version_resets().iter();
        resets.filter(move |scope| scope.source == *source && is_awaited(&scope.resource))
    }

    /// The version that a kind had at its watermark; 0: unknown.
    #[must_use]
    pub fn version_reported(&self, source: &str, resource: &str) -> u64 {
        let kind = self.progress.of(source, resource);
        kind.map_or(0, |kind| kind.version)
    }

    /// The watermark of a kind. None: unknown, or not counting since the kind was not listed.
    #[must_use]
    pub fn watermark_of(&self, source: &str, resource: &str) -> Option<Timestamp> {
        let kind = self.progress.of(source, resource)?;
        kind.counts().then_some(kind.watermark)
    }

    /// The lowest watermark of these kinds. None: one of them is unknown.
    #[must_use]
    pub fn watermark(&self, source: &str, resources: &[Name]) -> Option<Timestamp> {
        let all = resources.iter().map(|resource| self.watermark_of(source, resource));
        all.min().flatten()
    }

    /// Whether a source has listed a kind since the last loss, or reported that the cluster does not have it.
    #[must_use]
    pub fn is_listed(&self, source: &str, resource: &str) -> bool {
        let kind = self.progress.of(source, resource);
        kind.is_some_and(|kind| kind.is_listed || kind.is_absent)
    }
}
