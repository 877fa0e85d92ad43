//! Caches results by text.

use std::collections::BTreeMap;

use parking_lot::RwLock;

/// Most texts in the cache. Senders choose the texts; beyond this number, results are computed each time.
const TEXTS_MAX: usize = 1024;

/// A cache of values derived from texts, such as the names of kinds.
#[derive(Debug)]
pub(super) struct InternCache<T>(RwLock<BTreeMap<Box<str>, T>>);

impl<T> Default for InternCache<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T: Clone> InternCache<T> {
    /// The cached value of a text, computed if necessary. Errors are not cached.
    pub(super) fn get<E>(
        &self,
        text: &str,
        find_out: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let cached = self.0.read();
        if let Some(value) = cached.get(text) {
            return Ok(value.clone());
        }
        let has_room = cached.len() < TEXTS_MAX;
        drop(cached);
        let found = find_out()?;
        if has_room {
            self.0.write().insert(text.into(), found.clone());
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_met_is_found_out_once_and_faults_each_time() {
        let cache = InternCache::default();
        assert_eq!(cache.get("a", || Err("bad")), Err("bad"));
        assert_eq!(cache.get("a", || Ok::<_, &str>(1)), Ok(1));
        assert_eq!(cache.get("a", || Err("not called")), Ok(1));
        assert_eq!(cache.get("b", || Ok::<_, &str>(2)), Ok(2));
    }

    #[test]
    fn so_many_are_remembered_and_the_others_found_out_each_time() {
        let cache = InternCache::default();
        for number in 0..TEXTS_MAX {
            assert_eq!(cache.get(&number.to_string(), || Ok::<_, &str>(0)), Ok(0));
        }
        assert_eq!(cache.get("0", || Ok::<_, &str>(1)), Ok(0));
        assert_eq!(cache.get("x", || Ok::<_, &str>(1)), Ok(1));
        assert_eq!(cache.get("x", || Ok::<_, &str>(2)), Ok(2));
    }
}
