//! Watermarks: how far a source has reported each kind of objects.

use crate::{
    event::{Event, Watermark, Watermarks},
    state::State,
};
use quota_semantics::{Name, Timestamp};

/// A publisher's bookmark: the time up to which it has reported everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bookmark {
    /// The identity of the watched cluster; empty: not given.
    pub cluster_uid: Name,
    /// The instance of the publisher; empty: not given.
    pub instance: Name,
    /// The watermark of each kind. For a kind that does not exist the time has no meaning.
    pub resources: Vec<Watermark>,
}

/// Advances the watermarks by a bookmark that was received at `received`. None: nothing advances.
///
/// A watermark never goes back, and is never later than its reception, since the clocks of publishers differ.
#[must_use]
pub(crate) fn advance_watermarks(
    state: &State,
    source: &Name,
    bookmark: &Bookmark,
    received: Timestamp,
) -> Option<Event> {
    let Bookmark { cluster_uid, instance, resources } = bookmark;
    let cluster_before = state.cluster_uid(source);
    let is_new_cluster = !cluster_uid.is_empty() && cluster_before != &**cluster_uid;
    let is_other_cluster = is_new_cluster && !cluster_before.is_empty();
    let recorded: Vec<_> = state.watermarks(source).collect();
    let advanced = resources.iter().filter_map(|reported| {
        let watermark = match reported.is_absent {
            true => received,
            false => reported.watermark.min(received),
        };
        let before = recorded
            .binary_search_by(|view| view.reported.resource.cmp(&reported.resource))
            .ok()
            .and_then(|place| recorded.get(place))
            .filter(|_| !is_other_cluster);
        let is_news = before.is_none_or(|before| {
            let before = &before.reported;
            before.watermark < watermark
                || before.is_absent != reported.is_absent
                || before.failing != reported.failing
        });
        // A source that cannot list a kind may not know its own last watermark.
        let kept = before.map(|before| &before.reported).filter(|before| {
            !before.is_absent && !reported.is_absent && watermark < before.watermark
        });
        is_news.then(|| Watermark {
            watermark: kept.map_or(watermark, |before| before.watermark),
            version: kept.map_or(reported.version, |before| before.version),
            ..reported.clone()
        })
    });
    let resources: Vec<_> = advanced.collect();
    (is_new_cluster || !resources.is_empty()).then(|| {
        Event::WatermarksAdvanced(Box::new(Watermarks {
            source: source.clone(),
            cluster_uid: cluster_uid.clone(),
            instance: instance.clone(),
            resources,
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Actor, Entry};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_nanoseconds(seconds * 1_000_000_000)
    }

    fn report(seconds: i64, is_absent: bool, failing: &str) -> Watermark {
        Watermark {
            resource: "pods".into(),
            watermark: at(seconds),
            version: u64::try_from(seconds).unwrap(),
            is_absent,
            failing: failing.into(),
        }
    }

    /// Each report is an entry, so none is recorded twice.
    #[test]
    fn a_failing_kind_is_recorded_when_that_begins_and_ends_and_keeps_its_watermark() {
        let (mut state, source) = (State::default(), Name::from("bridge"));
        let mut reports = |reported: Watermark| {
            let bookmark = Bookmark { resources: vec![reported], ..Bookmark::default() };
            let event = advance_watermarks(&state, &source, &bookmark, at(100))?;
            state.apply(&Entry {
                sequence: state.head().sequence + 1,
                time: at(100),
                actor: Actor::named("bridge"),
                event,
            });
            state.watermarks("bridge").next().map(|view| view.reported)
        };
        let failing = report(0, false, "403");
        assert_eq!(reports(failing.clone()), Some(failing.clone()));
        assert_eq!(reports(failing.clone()), None);
        assert_eq!(reports(report(10, false, "")), Some(report(10, false, "")));
        assert_eq!(reports(failing.clone()), Some(report(10, false, "403")));
        assert_eq!(reports(report(10, false, "500")), Some(report(10, false, "500")));
        assert_eq!(reports(report(11, false, "")), Some(report(11, false, "")));
        let absent = reports(report(0, true, "")).unwrap();
        assert_eq!((absent.watermark, absent.is_absent), (at(100), true));
        // What it says of a kind that comes back is not what it said of the kind before.
        assert_eq!(reports(failing.clone()), Some(failing));
    }
}
