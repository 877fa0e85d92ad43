//! What a source says of how far it has reported each kind of objects.

use crate::{
    event::{Event, Watermark, Watermarks},
    state::State,
};
use quota_semantics::{Name, Timestamp};

/// A publisher's bookmark: up to when it has shown everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bookmark {
    /// The identity of the cluster that it watches; empty: it does not say.
    pub cluster_uid: Name,
    /// Which of several publishers it is; empty: it does not say.
    pub instance: Name,
    /// Kind by kind. Of one that does not exist the time means nothing.
    pub resources: Vec<Watermark>,
}

/// Takes note of a bookmark that was received at `received`. None: it says nothing new.
///
/// A watermark never goes back, and is never later than when it was received: the clocks of publishers differ.
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
    let known: Vec<_> = state.watermarks(source).collect();
    let news = resources.iter().filter_map(|reported| {
        let watermark = match reported.is_absent {
            true => received,
            false => reported.watermark.min(received),
        };
        let before = known
            .binary_search_by(|view| view.reported.resource.cmp(&reported.resource))
            .ok()
            .and_then(|place| known.get(place))
            .filter(|_| !is_other_cluster);
        let is_news = before.is_none_or(|before| {
            before.reported.watermark < watermark || before.reported.is_absent != reported.is_absent
        });
        is_news.then(|| Watermark {
            watermark,
            ..reported.clone()
        })
    });
    let resources: Vec<_> = news.collect();
    (is_new_cluster || !resources.is_empty()).then(|| {
        Event::WatermarksAdvanced(Box::new(Watermarks {
            source: source.clone(),
            cluster_uid: cluster_uid.clone(),
            instance: instance.clone(),
            resources,
        }))
    })
}
