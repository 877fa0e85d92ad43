//! Recently built states.

use std::{collections::VecDeque, sync::Arc};

use quota_core::state::State;
use quota_ledger::replay::Until;

/// Most states that are kept.
const STATES: usize = 4;

/// A larger state is not kept, to save memory for current requests: so many objects, or bytes of ended reservations.
const OBJECTS: u32 = 250_000;
const ENDED_BYTES: usize = 32 * 1024 * 1024;

/// The cached states, most recently used last.
#[derive(Default)]
pub(super) struct Cache(VecDeque<(Until, Arc<State>)>);

impl Cache {
    pub(super) fn get(&mut self, until: Until) -> Option<Arc<State>> {
        let at = self.0.iter().position(|(key, _)| *key == until)?;
        let used = self.0.remove(at)?;
        let state = used.1.clone();
        self.0.push_back(used);
        Some(state)
    }

    pub(super) fn put(&mut self, until: Until, state: &Arc<State>) {
        if state.object_count() > OBJECTS || state.ended_bytes() > ENDED_BYTES {
            return;
        }
        self.0.retain(|(key, _)| *key != until);
        if self.0.len() == STATES {
            self.0.pop_front();
        }
        self.0.push_back((until, state.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_least_lately_goes() {
        let mut cache = Cache::default();
        let state = Arc::new(State::default());
        for sequence in 1..=4 {
            cache.put(Until::Sequence(sequence), &state);
        }
        assert!(cache.get(Until::Sequence(1)).is_some());
        cache.put(Until::Sequence(5), &state);
        assert!(cache.get(Until::Sequence(1)).is_some());
        assert!(cache.get(Until::Sequence(2)).is_none());
        assert_eq!(cache.0.len(), STATES);
    }
}
