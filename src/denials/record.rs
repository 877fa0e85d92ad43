//! The stored record of a denial.

use std::{borrow::Cow, sync::Arc};

use quota_client::wire::{AsOf, Denial, DeniedObject};
use quota_core::{
    decide::{Refusal, Request},
    event::Actor,
    state::Head,
};
use quota_semantics::{
    Timestamp, admission::CheckedQuota, quantity::Quantity, resource::ResourceList,
};

use crate::{log_limiter::cut, reason::of_refusal};

/// Most quotas that a record keeps: those that the request counts against.
const QUOTAS: usize = 32;

/// Approximate size limit of a record; details are dropped from a larger one.
const RECORD_BYTES: usize = 32 * 1024;

/// Longest detail text of a record, in bytes.
const DETAIL_BYTES: usize = 4096;

/// A denial, before its record is written: without its id and time.
pub(super) struct NewDenial(pub(super) Denial);

impl NewDenial {
    /// The record of a refusal; none if the refusal is not a denial.
    pub(super) fn of(
        actor: &Arc<Actor>,
        request: &Request,
        refusal: &Refusal,
        Head { sequence, time }: Head,
    ) -> Option<Self> {
        let denied = match refusal {
            Refusal::Denied(denied) => Some(denied),
            Refusal::TooManyPending { .. } => None,
            _ => return None,
        };
        Some(Self(Denial {
            id: 0,
            time,
            namespace: request.namespace.clone(),
            actor: (**actor).clone(),
            object: DeniedObject {
                uid: request.uid.clone(),
                resource: request.resource.to_string(),
                name: request.name.clone(),
                requested: request.footprint.resources.clone(),
            },
            reason: Cow::Borrowed(of_refusal(refusal).as_str()),
            detail: cut(&refusal.to_string(), DETAIL_BYTES).to_owned(),
            quotas: denied
                .map(|denied| wanted_of(&denied.quotas))
                .unwrap_or_default(),
            retry_after: denied.and_then(|denied| denied.retry_after),
            fits_when_empty: denied.map(|denied| denied.fits_when_empty),
            shortened: false,
            as_of: AsOf { sequence, time },
        }))
    }

    /// The record as JSON. Of a large one, quotas are dropped first, then the requested amounts.
    pub(super) fn to_json(&self, id: u64, time: Timestamp) -> serde_json::Result<String> {
        let mut denial = Denial {
            id,
            time,
            ..self.0.clone()
        };
        let mut json = serde_json::to_string(&denial)?;
        while json.len() > RECORD_BYTES {
            match denial.quotas.len() {
                0 if denial.object.requested.is_empty() => break,
                0 => denial.object.requested = ResourceList::new(),
                count => denial.quotas.truncate(count / 2),
            }
            denial.shortened = true;
            json = serde_json::to_string(&denial)?;
        }
        Ok(json)
    }
}

/// The limits that the request counts against.
fn wanted_of(quotas: &[CheckedQuota]) -> Vec<CheckedQuota> {
    let mut wanted = Vec::new();
    for quota in quotas {
        let is_wanted = |requested: &Quantity| !requested.is_zero();
        let resources = quota
            .resources
            .iter()
            .filter(|limit| is_wanted(&limit.requested));
        let resources: Vec<_> = resources.cloned().collect();
        if !resources.is_empty() && wanted.len() < QUOTAS {
            let name = quota.name.clone();
            wanted.push(CheckedQuota {
                name,
                kind: quota.kind,
                resources,
            });
        }
    }
    wanted
}
