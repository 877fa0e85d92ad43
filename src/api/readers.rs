//! Bounds the concurrent reads of the journal: a principal gets at most half of the turns, so that a flood of requests
//! delays only its own principal.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use quota_semantics::Name;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;
use crate::auth::Principal;

/// Turns to read the journal.
pub(super) struct Readers {
    most: usize,
    all: Arc<Semaphore>,
    /// The turns of the principals that read or wait.
    of_principal: Mutex<BTreeMap<Name, Arc<Semaphore>>>,
}

/// A turn to read; it ends on drop.
pub(super) struct Reading {
    /// Declared first, so that it is returned before the principal's turn: a waiter of the same principal then finds a
    /// free one.
    _one_of_all: OwnedSemaphorePermit,
    _one_of_principal: OwnedSemaphorePermit,
}

impl Readers {
    pub(super) fn new(most: usize) -> Self {
        Self { most, all: Arc::new(Semaphore::new(most)), of_principal: Mutex::default() }
    }

    /// Waits for a turn: first for one of the principal's own, so that a principal never has more waiters in the common
    /// queue than it may have readers.
    pub(super) async fn turn(&self, principal: &Name) -> Result<Reading, Problem> {
        let own = self.own(principal).acquire_owned().await;
        let own = own.map_err(|error| Problem::internal(&error))?;
        let one = self.all.clone().acquire_owned().await;
        Ok(Reading {
            _one_of_all: one.map_err(|error| Problem::internal(&error))?,
            _one_of_principal: own,
        })
    }

    /// The turns of a principal: half of all. `anonymous`, the principal of callers without tokens, may use all.
    fn own(&self, principal: &Name) -> Arc<Semaphore> {
        let mut own = self.of_principal.lock();
        // Turns in use are kept alive by their holders.
        own.retain(|_, turns| Arc::strong_count(turns) > 1);
        let most = match Principal::anonymous().name() == principal {
            true => self.most,
            false => self.most.div_ceil(2),
        };
        let turns = own.entry(principal.clone());
        let turns = turns.or_insert_with(|| Arc::new(Semaphore::new(most)));
        turns.clone()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// A turn, if one is free.
    fn try_turn(readers: &Readers, principal: &Name) -> Option<Reading> {
        let turn = readers.turn(principal).now_or_never()?;
        Some(turn.unwrap())
    }

    #[tokio::test]
    async fn a_flood_of_readers_waits_for_itself() {
        let readers = Readers::new(4);
        let [flood, other] = ["flood", "other"].map(Name::from);
        let reading: Vec<_> = (0..2).map(|_| try_turn(&readers, &flood).unwrap()).collect();
        let mut waiting: Vec<_> = (0..9).map(|_| Box::pin(readers.turn(&flood))).collect();
        for turn in &mut waiting {
            assert!(turn.now_or_never().is_none());
        }
        let of_other = try_turn(&readers, &other).unwrap();
        drop(reading);
        let mut at_once = 0;
        for turn in &mut waiting {
            at_once += usize::from(turn.now_or_never().is_some());
        }
        assert_eq!(at_once, 9, "each that has ended makes room for the next");
        drop((waiting, of_other));
        let anonymous = Principal::anonymous().name().clone();
        let all: Vec<_> = (0..4).map(|_| try_turn(&readers, &anonymous)).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(try_turn(&readers, &other).is_none());
        drop(all);
        // A principal without readers is not kept.
        assert!(try_turn(&readers, &other).is_some());
        assert_eq!(readers.of_principal.lock().len(), 1);
    }
}
