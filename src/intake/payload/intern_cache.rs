//! What was met before and need not be found out again.

use std::collections::BTreeMap;

use parking_lot::RwLock;

/// Texts that are remembered. Senders choose them; behind this many of them, the others are looked at each time.
const TEXTS_MAX: usize = 1024;

/// What was found out about texts, such as the names of kinds.
#[derive(Debug)]
pub(super) struct InternCache<T>(RwLock<BTreeMap<Box<str>, T>>);

impl<T> Default for InternCache<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T: Clone> InternCache<T> {
    /// What is recorded of a text, or is found out now. Errors are not remembered.
    pub(super) fn get<E>(
        &self,
        text: &str,
        find_out: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let met = self.0.read();
        if let Some(known) = met.get(text) {
            return Ok(known.clone());
        }
        let has_room = met.len() < TEXTS_MAX;
        drop(met);
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
        let met = InternCache::default();
        assert_eq!(met.get("a", || Err("bad")), Err("bad"));
        assert_eq!(met.get("a", || Ok::<_, &str>(1)), Ok(1));
        assert_eq!(met.get("a", || Err("not asked")), Ok(1));
        assert_eq!(met.get("b", || Ok::<_, &str>(2)), Ok(2));
    }

    #[test]
    fn so_many_are_remembered_and_the_others_found_out_each_time() {
        let met = InternCache::default();
        for number in 0..TEXTS_MAX {
            assert_eq!(met.get(&number.to_string(), || Ok::<_, &str>(0)), Ok(0));
        }
        assert_eq!(met.get("0", || Ok::<_, &str>(1)), Ok(0));
        assert_eq!(met.get("x", || Ok::<_, &str>(1)), Ok(1));
        assert_eq!(met.get("x", || Ok::<_, &str>(2)), Ok(2));
    }
}
