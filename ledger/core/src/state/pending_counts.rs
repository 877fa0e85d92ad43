//! The number of pending reservations, by principal and namespace, for the bounds on it.

use hashbrown::HashMap;
use quota_semantics::Name;

use crate::{event::Reservation, size};

/// What pending reservations count as against the bounds on their number: long ones count as several.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingCounts {
    pub(super) all: usize,
    /// Of each principal that has any.
    pub(super) of_principal: HashMap<Name, usize>,
    /// Beyond their number, of each namespace with long ones.
    pub(super) more_in: HashMap<Name, usize>,
}

impl PendingCounts {
    pub(super) fn add(&mut self, owner: &Name, reservation: &Reservation) {
        let count = size::count_of_reserved(&reservation.footprint);
        self.all += count;
        *self.of_principal.entry_ref(owner).or_default() += count;
        if count > 1 {
            *self.more_in.entry_ref(&reservation.namespace).or_default() += count - 1;
        }
    }

    pub(super) fn remove(&mut self, owner: &Name, reservation: &Reservation) {
        let count = size::count_of_reserved(&reservation.footprint);
        self.all -= count;
        count_out(&mut self.of_principal, owner, count);
        count_out(&mut self.more_in, &reservation.namespace, count - 1);
    }
}

/// Removes so many from the count of a principal or namespace.
pub(super) fn count_out(counts: &mut HashMap<Name, usize>, name: &Name, fewer: usize) {
    if fewer > 0
        && let Some(count) = counts.get_mut(name)
    {
        *count -= fewer;
        if *count == 0 {
            counts.remove(name);
        }
    }
}
