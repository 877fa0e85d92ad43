//! Filters out changes that leave the counted amounts as they are, and need not be published.

use std::collections::HashMap;

use quota_semantics::uid::Uid;

/// Version and fingerprint of each object, as last published.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    published: HashMap<Uid, Published>,
    /// The objects that the current list contains so far.
    listed: HashMap<Uid, Published>,
}

#[derive(Clone, Copy, Debug)]
struct Published {
    version: u64,
    fingerprint: u64,
}

impl Filter {
    /// Begins a list.
    pub(crate) fn begin(&mut self) {
        self.listed = HashMap::new();
    }

    /// Records a listed object, which is always published. It counts as published from the end of the list on. Returns
    /// the version published before.
    pub(crate) fn list(&mut self, uid: Uid, version: u64, fingerprint: u64) -> Option<u64> {
        let now = Published { version, fingerprint };
        let before = self.published.get(&uid).map(|before| before.version);
        self.listed.insert(uid, now);
        before
    }

    /// Ends a list: objects that the list does not contain are gone.
    pub(crate) fn end(&mut self) {
        self.published = std::mem::take(&mut self.listed);
    }

    /// Whether a change has to be published. The change counts as published from then on.
    pub(crate) fn changes(&mut self, uid: Uid, version: u64, fingerprint: u64) -> bool {
        let now = Published { version, fingerprint };
        match self.published.insert(uid, now) {
            // Without a number it is not clear which one is newer.
            Some(before) if version > 0 && before.version > 0 => {
                version < before.version || fingerprint != before.fingerprint
            }
            _ => true,
        }
    }

    /// Removes a deleted object.
    pub(crate) fn forget(&mut self, uid: &Uid) {
        self.published.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_something_is_published() {
        let uid = |text| Uid::new(text).unwrap();
        let mut filter = Filter::default();
        assert!(filter.changes(uid("a"), 1, 10), "new");
        assert!(!filter.changes(uid("a"), 2, 10), "the same");
        assert!(filter.changes(uid("a"), 3, 11), "another");
        assert!(filter.changes(uid("a"), 2, 11), "back in time");
        assert!(filter.changes(uid("n"), 0, 0) && filter.changes(uid("n"), 0, 0));
        filter.forget(&uid("a"));
        assert!(filter.changes(uid("a"), 4, 11), "made anew");

        filter.begin();
        assert_eq!(filter.list(uid("b"), 5, 12), None);
        filter.end();
        assert!(!filter.changes(uid("b"), 6, 12));
        assert!(filter.changes(uid("a"), 7, 11), "not listed, so gone before");
    }
}
