//! Requests for capacity, decided and recorded in one step.

use std::sync::Arc;

use super::{
    Basis, Notice, Policy, Refusal, Request, Requester, Review, admit, is_reserved, reserve,
    reserve_all, revocable,
};
use crate::{
    event::{Actor, Event, Sequence},
    state::ReservationStatus,
    transaction::WriteTransaction,
};
use quota_semantics::{Name, admission::CheckedQuota};

/// The decision on a request for capacity that is not refused: to reserve, or to admit an object.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// The events to record. Once they are recorded, an admission keeps them for its answer; a reservation has none.
    pub events: Vec<Event>,
    /// The granted reservation. Before its events are recorded, only a new one has a status; an admission has none.
    pub status: Option<ReservationStatus>,
    /// The entry that granted the same request before.
    pub replayed: Option<Sequence>,
    /// Of an admission: the entry whose reservation can be released should the creation of the object fail, since no
    /// other request relies on it.
    pub revocable: Option<Sequence>,
    /// Of an admission: the charged quotas, with the charged limits of each.
    pub charged: Vec<CheckedQuota>,
    /// Of an admission: the workload was scaled without a decision, since another workload is charged for its pods.
    pub unmeasured: bool,
    /// Notices about the request.
    pub notices: Vec<Notice>,
    /// Resources to warn of, since nothing limits them.
    pub unlimited: Vec<Name>,
}

impl WriteTransaction<'_> {
    /// Grants a request as [`reserve`] does, and records that.
    ///
    /// # Errors
    /// As [`reserve`].
    pub fn reserve(
        &mut self,
        actor: &Arc<Actor>,
        by: &Requester,
        request: &Request,
        policy: &Policy,
    ) -> Result<Decision, Refusal> {
        let mut decision = reserve(self.state(), self.now(), by, request, policy)?;
        self.record(actor, std::mem::take(&mut decision.events));
        if decision.status.is_none() {
            decision.status = self.state().reservation_status(&request.namespace, &request.uid);
        }
        Ok(decision)
    }

    /// Grants all requests or none as [`reserve_all`] does, and records that.
    ///
    /// # Errors
    /// As [`reserve_all`].
    pub fn reserve_all(
        &mut self,
        actor: &Arc<Actor>,
        by: &Requester,
        requests: &[Request],
        policy: &Policy,
    ) -> Result<Vec<Decision>, (usize, Refusal)> {
        let mut decisions = reserve_all(self.state(), self.now(), by, requests, policy)?;
        for decision in &mut decisions {
            self.record(actor, std::mem::take(&mut decision.events));
        }
        for (request, decision) in requests.iter().zip(&mut decisions) {
            // A request may have superseded one before it.
            let is_pending = || is_reserved(self.state(), &request.namespace, &request.uid);
            if decision.status.is_none() || !is_pending() {
                decision.status = self.state().reservation_status(&request.namespace, &request.uid);
            }
        }
        Ok(decisions)
    }

    /// Decides as [`admit`] does, and records that.
    ///
    /// # Errors
    /// As [`admit`].
    pub fn admit(
        &mut self,
        actor: &Arc<Actor>,
        by: &Requester,
        review: &Review,
        policy: &Policy,
    ) -> Result<Decision, Refusal> {
        let request = &review.request;
        let (namespace, uid) = (&request.namespace, &request.uid);
        // Who repeats a request need not be who made the reservation, and must not be able to release it.
        let is_first = !is_reserved(self.state(), namespace, uid);
        let mut decision = admit(self.state(), self.now(), by, review, policy)?;
        self.record(actor, decision.events.iter().cloned());
        // Each creation has a uid of its own.
        if review.holds && is_first && request.basis == Basis::Create {
            decision.revocable = revocable(self.state(), &decision.events, namespace, uid);
        }
        Ok(decision)
    }
}
