//! Slots for open watches: limited in total and by principal, so that one reader cannot take all.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use quota_core::event::Actor;
use quota_semantics::Name;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{auth::Principal, metrics};

/// Limits on open watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLimits {
    /// In total.
    pub all: usize,
    /// Of one principal. `anonymous`, the principal of callers without tokens, is limited by `all` alone.
    pub of_principal: usize,
}

impl From<usize> for WatchLimits {
    /// Only a total limit, for any principal.
    fn from(all: usize) -> Self {
        Self { all, of_principal: all }
    }
}

/// The slots.
pub struct Watches {
    most: WatchLimits,
    all: Arc<Semaphore>,
    /// The number of open watches by principal.
    open: Mutex<BTreeMap<Name, usize>>,
}

/// A used slot; it is released on drop.
pub struct Slot {
    watches: Arc<Watches>,
    principal: Name,
    _one_of_all: OwnedSemaphorePermit,
}

/// Why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// All slots are used.
    #[error("{0} watches are open, and no more are allowed")]
    All(usize),
    /// The principal has used all its slots.
    #[error("{0} watches of this principal are open, and no more are allowed")]
    OfPrincipal(usize),
}

impl Watches {
    /// A set of this many slots.
    pub fn new(most: WatchLimits) -> Arc<Self> {
        Arc::new(Self { most, all: Arc::new(Semaphore::new(most.all)), open: Mutex::default() })
    }

    /// Takes a slot for a caller.
    ///
    /// # Errors
    /// [`Full`].
    pub fn open(self: &Arc<Self>, actor: &Actor) -> Result<Slot, Full> {
        let Ok(one_of_all) = self.all.clone().try_acquire_owned() else {
            metrics::limit_reached(metrics::Limit::WatchStreams);
            return Err(Full::All(self.most.all));
        };
        let principal = actor.principal.clone();
        let most = match Principal::anonymous().name() == &principal {
            true => self.most.all,
            false => self.most.of_principal,
        };
        let mut open = self.open.lock();
        let mine = open.entry(principal.clone()).or_default();
        if *mine >= most {
            metrics::limit_reached(metrics::Limit::WatchStreamsPerPrincipal);
            return Err(Full::OfPrincipal(most));
        }
        *mine += 1;
        drop(open);
        Ok(Slot { watches: self.clone(), principal, _one_of_all: one_of_all })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.watches.open.lock();
        if let Some(mine) = open.get_mut(&self.principal) {
            *mine -= 1;
            if *mine == 0 {
                open.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_principal_does_not_take_all_slots() {
        let watches = Watches::new(WatchLimits { all: 4, of_principal: 2 });
        let [a, b] = ["a", "b"].map(Actor::named);
        let open = |actor| watches.open(actor).map_err(|full| full.to_string());
        let of_a = [open(&a).unwrap(), open(&a).unwrap()];
        assert!(open(&a).err().unwrap().starts_with("2 watches of this principal"));
        let of_b = open(&b).unwrap();
        drop(of_a);
        assert_eq!(watches.open.lock().len(), 1);
        drop(of_b);
        let anonymous = Principal::anonymous().actor();
        let all: Vec<_> = (0..4).map(|_| open(&anonymous).unwrap()).collect();
        assert!(open(&b).err().unwrap().starts_with("4 watches are open"));
        drop(all);
        assert!(watches.open.lock().is_empty());
    }
}
