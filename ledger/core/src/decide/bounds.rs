//! Bounds on one request, and on everything in one namespace that costs others time or memory.
//!
//! Only requests to the ledger are bounded. Objects that a cluster has stored are facts, and always count.

use std::collections::BTreeSet;

use super::{GroupChange, QuotaChange, Refusal, Request, Requester};
use crate::{
    event::Event,
    size,
    state::{Overlay, State},
};
use quota_semantics::{Name, Span, Timestamp, resource::ResourceList};

/// How many times as many resources of a namespace may be named by objects under review as by reservations.
const REVIEWED: usize = 4;

/// Most relists that are not over: each has to remember the objects that it listed.
pub(crate) const RELISTS_MAX: usize = 1024;

/// Bounds on requests.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Most resources of one reservation.
    pub reservation_resources: usize,
    /// Most bytes of the names in the footprint of one reservation: of resources and classes, and the values of labels.
    pub reservation_name_bytes: usize,
    /// Most different resources that the objects and reservations of one namespace name: its sums, and those of its
    /// groups, hold them all.
    pub resources_per_namespace: usize,
    /// Most reservations of one namespace that are committed and not observed.
    pub committed_per_namespace: usize,
    /// Most reservations of one principal that are committed and not observed, in all namespaces.
    pub committed_per_principal: usize,
    /// Most limits of one quota.
    pub limits_per_quota: usize,
    /// Most quotas of one namespace.
    pub quotas_per_namespace: usize,
    /// Most bytes of ended reservations that are remembered, so that a repeated request gets the same answer.
    pub ended_bytes: u64,
    /// How long a reservation can be held at most, however often it is extended.
    pub max_lifetime: Span,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            reservation_resources: 64,
            reservation_name_bytes: 8 * 1024,
            resources_per_namespace: 1024,
            committed_per_namespace: 20_000,
            committed_per_principal: 100_000,
            limits_per_quota: 256,
            quotas_per_namespace: 100,
            ended_bytes: 256 << 20,
            max_lifetime: Span::from_seconds(24 * 3600),
        }
    }
}

impl Bounds {
    /// Checks the footprint of a reservation. A charged workload without replicas holds no amounts, but those of one pod
    /// are recorded.
    ///
    /// # Errors
    /// `LimitReached`.
    pub(crate) fn check_request(
        &self,
        state: &State,
        overlay: &Overlay,
        request: &Request,
    ) -> Result<(), Refusal> {
        let resources = &request.footprint.resources;
        let replica = size::replica(&request.footprint.traits).map_or(0, ResourceList::len);
        let key = "limits.reservation_resources";
        let count = resources.len().max(replica);
        within(key, count, self.reservation_resources)?;
        let key = "limits.reservation_name_bytes";
        let bytes = size::of_names_in(&request.footprint);
        within(key, bytes, self.reservation_name_bytes)?;
        self.check_names(state, overlay, &request.namespace, resources, 1)
    }

    /// Checks the number of resources that are named in a namespace, for an object under review: a pod may name more than a
    /// reservation.
    ///
    /// # Errors
    /// `LimitReached`.
    pub(crate) fn check_reviewed(
        &self,
        state: &State,
        overlay: &Overlay,
        namespace: &str,
        resources: &ResourceList,
    ) -> Result<(), Refusal> {
        self.check_names(state, overlay, namespace, resources, REVIEWED)
    }

    /// Checks the number of resources that are named in a namespace against a multiple of the bound. Only a request that
    /// names new ones is refused: facts may exceed the bound.
    ///
    /// # Errors
    /// `LimitReached`.
    fn check_names(
        &self,
        state: &State,
        overlay: &Overlay,
        namespace: &str,
        resources: &ResourceList,
        multiple: usize,
    ) -> Result<(), Refusal> {
        let most = self.resources_per_namespace.saturating_mul(multiple);
        let [used, reserved] = state.sums_in(namespace);
        let granted = overlay.reserved_in(namespace);
        // The usual case, whichever of the names are new.
        if used.len() + reserved.len() + granted.len() + resources.len() <= most {
            return Ok(());
        }
        let is_new = |name: &&Name| used.get(*name).is_none() && reserved.get(*name).is_none();
        // Sums have no zeros.
        let own = || {
            let counted = resources.iter().filter(|(_, amount)| !amount.is_zero());
            counted.map(|(name, _)| name).filter(is_new)
        };
        if own().all(|name| granted.get(name).is_some()) {
            return Ok(());
        }
        let new: BTreeSet<&Name> = granted.names().filter(is_new).chain(own()).collect();
        // Without a look at very many names, if the facts alone exceed the bound.
        let larger = used.len().max(reserved.len());
        let counted = match larger > most {
            true => larger,
            false => used.len() + reserved.len() - used.common(reserved).count(),
        };
        let requested = counted + new.len();
        match requested <= most {
            true => Ok(()),
            false => {
                within("limits.resources_per_namespace", requested, self.resources_per_namespace)
            }
        }
    }

    /// Checks whether one more reservation of `owner` in a namespace may be committed. `replaced`: the owner of the commit
    /// that the new one replaces, if there is one.
    ///
    /// # Errors
    /// `LimitReached`.
    pub(crate) fn check_commit(
        &self,
        state: &State,
        by: &Requester,
        namespace: &str,
        owner: &Name,
        replaced: Option<&Name>,
    ) -> Result<(), Refusal> {
        if replaced.is_none() {
            within(
                "limits.committed_per_namespace",
                state.committed_count_in(namespace) + 1,
                self.committed_per_namespace,
            )?;
        }
        if by.is_anybody || replaced == Some(owner) {
            return Ok(());
        }
        within(
            "limits.committed_per_principal",
            state.committed_count_of(owner) + 1,
            self.committed_per_principal,
        )
    }

    /// Checks the number of limits of a group. An existing group may keep as many as it has.
    ///
    /// # Errors
    /// `LimitReached`.
    pub fn check_group(&self, state: &State, change: &GroupChange) -> Result<(), Refusal> {
        let current = state.group_record(&change.name);
        let before = current.map_or(0, |(record, _)| record.spec.quota.hard.len());
        let after = change.spec.quota.hard.len();
        match after > before {
            true => within("limits.limits_per_quota", after, self.limits_per_quota),
            false => Ok(()),
        }
    }

    /// Checks the size and the number of quotas. An existing quota may keep its size.
    ///
    /// # Errors
    /// `LimitReached`.
    pub fn check_quota(&self, state: &State, change: &QuotaChange) -> Result<(), Refusal> {
        let current = state.quota_record(&change.namespace, &change.name);
        let before = current.map_or(0, |(record, _)| record.spec.hard.len());
        let after = change.spec.hard.len();
        if after > before {
            within("limits.limits_per_quota", after, self.limits_per_quota)?;
        }
        if current.is_some() {
            return Ok(());
        }
        let quotas = state.quota_count_in(&change.namespace) + 1;
        within("limits.quotas_per_namespace", quotas, self.quotas_per_namespace)
    }

    /// Checks whether a reservation made at `created` may be held until `expiration`.
    ///
    /// # Errors
    /// `LimitReached`.
    pub(crate) fn check_lifetime(
        &self,
        created: Timestamp,
        expiration: Timestamp,
    ) -> Result<(), Refusal> {
        let seconds = |span: Span| usize::try_from(span.nanoseconds() / 1_000_000_000).unwrap_or(0);
        let most = self.max_lifetime;
        if expiration <= created.plus(most) {
            return Ok(());
        }
        Err(Refusal::LimitReached {
            limit: "reservations.max_lifetime",
            requested: seconds(expiration.since(created)),
            most: seconds(most),
        })
    }
}

/// Bounds the bytes of ended reservations when they exceed the limit.
#[must_use]
pub fn bound_ended(state: &State, bounds: &Bounds) -> Option<Event> {
    let bytes = bounds.ended_bytes;
    let is_needed = state.has_to_bound_ended(bytes);
    is_needed.then_some(Event::EndedBounded { bytes })
}

const fn within(limit: &'static str, requested: usize, most: usize) -> Result<(), Refusal> {
    match requested <= most {
        true => Ok(()),
        false => Err(Refusal::LimitReached { limit, requested, most }),
    }
}
