//! The clusters whose messages the stream holds.

use std::collections::BTreeMap;

use quota_semantics::{Name, Span, Timestamp};

/// Most clusters that are remembered.
const CLUSTERS_MAX: usize = 64;

/// How long a cluster is remembered after its last message. A bridge publishes watermarks every few seconds, so a
/// cluster without a message for this long is gone, or has another name.
const REMEMBERED: Span = Span::from_seconds(3600);

/// The clusters by the time of their last message, on the clock of the stream.
///
/// A relist of all namespaces says that no other objects exist, so it is only true of a source with one cluster.
#[derive(Debug, Default)]
pub(super) struct Clusters(BTreeMap<Name, Timestamp>);

impl Clusters {
    /// Records a message of a cluster.
    pub(super) fn note(&mut self, cluster: &str, time: Timestamp) {
        if let Some(last) = self.0.get_mut(cluster) {
            *last = time.max(*last);
            return;
        }
        self.0.retain(|_, last| *last >= time.minus(REMEMBERED));
        if self.0.len() < CLUSTERS_MAX {
            self.0.insert(cluster.into(), time);
        }
    }

    /// Another cluster than this one that is remembered at this time.
    pub(super) fn other_than(&self, cluster: &str, time: Timestamp) -> Option<&Name> {
        let mut others = self
            .0
            .iter()
            .filter(|(name, last)| ***name != *cluster && **last >= time.minus(REMEMBERED));
        others.next().map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_cluster_is_remembered_for_an_hour_after_its_last_message() {
        let at = |minutes: i64| Timestamp::EPOCH.plus(Span::from_seconds(minutes * 60));
        let mut clusters = Clusters::default();
        clusters.note("a", at(0));
        clusters.note("a", at(1));
        assert_eq!(clusters.other_than("a", at(1)), None);
        assert_eq!(clusters.other_than("b", at(1)).unwrap(), "a");
        clusters.note("b", at(55));
        assert_eq!(clusters.other_than("a", at(55)).unwrap(), "b");
        assert_eq!(clusters.other_than("b", at(61)).unwrap(), "a");
        assert_eq!(clusters.other_than("b", at(62)), None, "it was renamed");
        for number in 0..2 * CLUSTERS_MAX {
            clusters.note(&format!("c{number}"), at(62));
        }
        assert_eq!(clusters.0.len(), CLUSTERS_MAX);
    }
}
