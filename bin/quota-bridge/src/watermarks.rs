//! The watermarks of all kinds.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use quota_semantics::{Name, Timestamp, object::GroupResource};

use crate::line::{Progress, Scope};

/// Watermarks of all kinds. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Watermarks(Arc<Mutex<ReportedKinds>>);

#[derive(Debug, Default)]
struct ReportedKinds {
    kinds: BTreeMap<GroupResource, Kind>,
    /// How often the stream has lost messages.
    losses: u64,
}

#[derive(Debug)]
enum Kind {
    Absent,
    /// What is known of each scope; the watermark of the kind is the oldest of theirs.
    Scopes(BTreeMap<Scope, OfScope>),
}

/// What is known of a scope.
#[derive(Clone, Debug, Default)]
struct OfScope {
    known: Known,
    /// Why the scope cannot be listed or watched, since its watermark last advanced.
    failing: Option<Name>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Known {
    /// There is no watermark yet.
    #[default]
    Nothing,
    /// The stream has lost messages: there is no watermark until the scope is listed again.
    Lost,
    Watermark(ScopeWatermark),
}

#[derive(Clone, Copy, Debug)]
struct ScopeWatermark {
    time: Timestamp,
    version: u64,
}

impl Kind {
    /// Whether it has a watermark, or needs none.
    fn is_known(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Scopes(scopes) => oldest(scopes).is_some(),
        }
    }
}

impl Watermarks {
    /// Records that a kind is watched from now on, in these scopes. The kind has no watermark yet.
    pub fn watched(&self, kind: &GroupResource, scopes: &[Scope]) {
        let scopes = scopes.iter().map(|scope| (scope.clone(), OfScope::default()));
        let kind_of = Kind::Scopes(scopes.collect());
        self.0.lock().kinds.insert(kind.clone(), kind_of);
    }

    /// Records that a kind is not served.
    pub fn absent(&self, kind: &GroupResource) {
        self.0.lock().kinds.insert(kind.clone(), Kind::Absent);
    }

    /// Removes the kinds that are not served, except for those that `is_kept` selects.
    pub fn keep_absent(&self, is_kept: impl Fn(&GroupResource) -> bool) {
        let kinds = &mut self.0.lock().kinds;
        kinds.retain(|kind, watched| !matches!(watched, Kind::Absent) || is_kept(kind));
    }

    /// Records that all changes of a scope committed by this time are queued.
    pub fn advance(&self, scope: &Scope, time: Timestamp, version: u64) {
        let watermark = Known::Watermark(ScopeWatermark { time, version });
        self.change(scope, |of| {
            if !matches!(of.known, Known::Lost) {
                *of = OfScope { known: watermark, failing: None };
            }
        });
    }

    /// Records why a scope cannot be listed or watched. A watermark that the scope has remains.
    pub fn failed(&self, scope: &Scope, failing: &str) {
        self.change(scope, |of| of.failing = Some(failing.into()));
    }

    /// How often the stream has lost messages.
    pub fn losses(&self) -> u64 {
        self.0.lock().losses
    }

    /// Withdraws all watermarks, since the stream has lost messages.
    pub fn lose(&self) {
        let mut known = self.0.lock();
        known.losses += 1;
        for kind in known.kinds.values_mut() {
            if let Kind::Scopes(scopes) = kind {
                scopes.values_mut().for_each(|of| of.known = Known::Lost);
            }
        }
    }

    /// Records that a scope was listed, and that the list began after so many `losses`.
    pub fn listed(&self, scope: &Scope, losses: u64) {
        let mut known = self.0.lock();
        if known.losses == losses
            && let Some(Kind::Scopes(scopes)) = known.kinds.get_mut(&scope.resource)
            && let Some(of) = scopes.get_mut(scope)
            && matches!(of.known, Known::Lost)
        {
            of.known = Known::Nothing;
        }
    }

    fn change(&self, scope: &Scope, change: impl FnOnce(&mut OfScope)) {
        if let Some(Kind::Scopes(scopes)) = self.0.lock().kinds.get_mut(&scope.resource)
            && let Some(of) = scopes.get_mut(scope)
        {
            change(of);
        }
    }

    /// The progress of all kinds for a bookmark, without kinds that have no watermark yet and do not fail.
    pub fn progress(&self) -> BTreeMap<Name, Progress> {
        let kinds = &self.0.lock().kinds;
        let progress = kinds.iter().filter_map(|(kind, watched)| {
            let progress = match watched {
                Kind::Absent => Progress::Absent { absent: true },
                Kind::Scopes(scopes) => {
                    let failing = scopes.values().find_map(|of| of.failing.clone());
                    match oldest(scopes) {
                        Some(oldest) => Progress::Watermark {
                            watermark: oldest.time,
                            version: oldest.version.to_string(),
                            failing,
                        },
                        None => Progress::Failing { failing: failing? },
                    }
                }
            };
            Some((kind.name(), progress))
        });
        progress.collect()
    }

    /// The watched kinds that have no watermark yet.
    pub fn missing(&self) -> Vec<GroupResource> {
        let kinds = &self.0.lock().kinds;
        let missing = kinds.iter().filter(|(_, watched)| !watched.is_known());
        missing.map(|(kind, _)| kind.clone()).collect()
    }

    /// Whether a kind lacks a watermark only because the bridge may not list it.
    pub fn is_refused(&self, kind: &GroupResource) -> bool {
        let kinds = &self.0.lock().kinds;
        let Some(Kind::Scopes(scopes)) = kinds.get(kind) else {
            return false;
        };
        let mut missing = scopes.values().filter(|of| !matches!(of.known, Known::Watermark(_)));
        oldest(scopes).is_none() && missing.all(|of| of.failing.as_deref() == Some("403"))
    }

    /// Whether all objects of these kinds have been queued: each has a watermark, or is not served.
    pub fn are_known(&self, these: &[GroupResource]) -> bool {
        let kinds = &self.0.lock().kinds;
        let mut these = these.iter();
        these.all(|kind| kinds.get(kind).is_some_and(Kind::is_known))
    }

    /// Whether discovery has not succeeded yet.
    pub fn is_empty(&self) -> bool {
        self.0.lock().kinds.is_empty()
    }
}

fn oldest(scopes: &BTreeMap<Scope, OfScope>) -> Option<ScopeWatermark> {
    let all = scopes.values().map(|of| match of.known {
        Known::Watermark(watermark) => Some(watermark),
        Known::Nothing | Known::Lost => None,
    });
    let all: Option<Vec<_>> = all.collect();
    all?.into_iter().min_by_key(|watermark| watermark.time)
}

/// The time now.
pub(crate) fn now() -> Timestamp {
    let time = jiff::Timestamp::now().as_nanosecond();
    Timestamp::from_nanoseconds(i64::try_from(time).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watermark_of_a_kind_is_that_of_its_last_namespace() {
        let kind = GroupResource::new("", "pods");
        let scope =
            |namespace: &str| Scope { resource: kind.clone(), namespace: Some(namespace.into()) };
        let marks = Watermarks::default();
        marks.watched(&kind, &[scope("a"), scope("b")]);
        let at = |seconds: i64| Timestamp::from_nanoseconds(seconds * 1_000_000_000);
        marks.advance(&scope("a"), at(9), 20);
        assert_eq!(marks.missing(), std::slice::from_ref(&kind));
        assert!(marks.progress().is_empty());
        marks.advance(&scope("b"), at(7), 18);
        let expected =
            Progress::Watermark { watermark: at(7), version: "18".to_owned(), failing: None };
        assert_eq!(marks.progress()["pods"], expected);
        marks.absent(&kind);
        marks.advance(&scope("b"), at(8), 19);
        assert_eq!(marks.progress()["pods"], Progress::Absent { absent: true });
        assert!(marks.missing().is_empty());
        marks.keep_absent(|_| true);
        assert_eq!(marks.progress().len(), 1);
        marks.keep_absent(|_| false);
        assert!(marks.is_empty());
    }

    /// The ledger may not know what the watermark promises.
    #[test]
    fn after_a_loss_a_scope_has_no_watermark_until_it_is_listed_again() {
        let kind = GroupResource::new("", "pods");
        let scope = Scope { resource: kind.clone(), namespace: None };
        let marks = Watermarks::default();
        marks.watched(&kind, std::slice::from_ref(&scope));
        let is_known = |marks: &Watermarks| marks.progress().contains_key("pods");
        marks.advance(&scope, Timestamp::EPOCH, 7);
        assert!(is_known(&marks));
        let before = marks.losses();
        marks.lose();
        assert!(!is_known(&marks));
        // A list that began before the loss is not whole in the stream.
        marks.listed(&scope, before);
        marks.advance(&scope, Timestamp::EPOCH, 7);
        assert!(!is_known(&marks));
        marks.listed(&scope, marks.losses());
        assert!(!is_known(&marks));
        marks.advance(&scope, Timestamp::EPOCH, 7);
        assert!(is_known(&marks));
    }

    #[test]
    fn a_kind_is_refused_until_it_is_listed() {
        let kind = GroupResource::new("", "secrets");
        let [a, b] = ["a", "b"]
            .map(|namespace| Scope { resource: kind.clone(), namespace: Some(namespace.into()) });
        let marks = Watermarks::default();
        marks.failed(&a, "403");
        assert!(!marks.is_refused(&kind), "it is not watched");
        marks.watched(&kind, &[a.clone(), b.clone()]);
        marks.failed(&a, "403");
        assert!(!marks.is_refused(&kind), "the other namespace is awaited");
        marks.advance(&b, Timestamp::EPOCH, 7);
        assert!(marks.is_refused(&kind));
        marks.failed(&b, "403");
        let failing = |marks: &Watermarks| match &marks.progress()["secrets"] {
            Progress::Watermark { failing, .. } => failing.clone(),
            Progress::Failing { failing } => Some(failing.clone()),
            Progress::Absent { .. } => None,
        };
        assert_eq!(failing(&marks), Some("403".into()));
        marks.advance(&a, Timestamp::EPOCH, 7);
        assert!(!marks.is_refused(&kind) && marks.missing().is_empty());
        assert_eq!(failing(&marks), Some("403".into()), "of the other one");
        marks.advance(&b, Timestamp::EPOCH, 8);
        assert_eq!(failing(&marks), None);
    }

    #[test]
    fn some_kinds_are_known_whatever_is_missing_of_others() {
        let kind = |name| GroupResource::new("", name);
        let (quotas, groups, secrets) = (kind("quotas"), kind("groups"), kind("secrets"));
        let scope = |kind: &GroupResource| Scope { resource: kind.clone(), namespace: None };
        let marks = Watermarks::default();
        let both = [quotas.clone(), groups.clone()];
        assert!(!marks.are_known(&both), "discovery has not succeeded yet");
        marks.watched(&quotas, &[scope(&quotas)]);
        marks.watched(&secrets, &[scope(&secrets)]);
        marks.absent(&groups);
        assert!(!marks.are_known(&both));
        marks.advance(&scope(&quotas), Timestamp::EPOCH, 7);
        assert!(marks.are_known(&both));
        assert_eq!(marks.missing(), [secrets]);
    }
}
