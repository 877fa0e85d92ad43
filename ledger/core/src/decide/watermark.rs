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
    let Bookmark {
        cluster_uid,
        instance,
        resources,
    } = bookmark;
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
            before.reported.watermark < watermark || before.reported.is_absent != reported.is_absent
        });
        is_news.then(|| Watermark {
            watermark,
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
