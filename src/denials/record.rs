//! The stored record of a denial.

use std::{borrow::Cow, sync::Arc};

use quota_client::wire::{AsOf, Denial, DeniedObject};
use quota_core::{
    decide::{Refusal, Request},
    event::Actor,
    state::Head,
};
use quota_semantics::{
    Timestamp,
    admission::{CheckedLimit, CheckedQuota},
    resource::ResourceList,
};

use crate::{log_limiter::cut, reason::of_refusal};

/// Most quotas that a record keeps: those that the request counts against.
const QUOTAS: usize = 32;

/// Most limits of these quotas that a record keeps: denials wait in memory until their records are written.
const LIMITS: usize = 256;

/// A record of a request for more resources than this keeps none of them.
const REQUESTED: usize = 1024;

/// Approximate size limit of a record; details are dropped from a larger one.
const RECORD_BYTES: usize = 32 * 1024;

/// Longest detail text of a record, in bytes.
const DETAIL_BYTES: usize = 4096;

/// The record of a refusal, still without its id and time; none if the refusal is not a denial.
pub(super) fn new(
    actor: &Arc<Actor>,
    request: &Request,
    refusal: &Refusal,
    Head { sequence, time }: Head,
) -> Option<Denial> {
    let denied = match refusal {
        Refusal::Denied(denied) => Some(denied),
        Refusal::TooManyPending { .. } => None,
        _ => return None,
    };
    let (quotas, lacks_limits) = denied.map(|denied| wanted_of(&denied.quotas)).unwrap_or_default();
    let requested = &request.footprint.resources;
    let lacks_amounts = requested.len() > REQUESTED;
    Some(Denial {
        id: 0,
        time,
        namespace: request.namespace.clone(),
        actor: (**actor).clone(),
        object: DeniedObject {
            uid: request.uid.clone(),
            resource: request.resource.to_string(),
            name: request.name.clone(),
            requested: match lacks_amounts {
                true => ResourceList::new(),
                false => requested.clone(),
            },
        },
        reason: Cow::Borrowed(of_refusal(refusal).as_str()),
        detail: cut(&refusal.to_string(), DETAIL_BYTES).to_owned(),
        quotas,
        retry_after: denied.and_then(|denied| denied.retry_after),
        fits_when_empty: denied.map(|denied| denied.fits_when_empty),
        shortened: lacks_limits || lacks_amounts,
        as_of: AsOf { sequence, time },
    })
}

/// The record as JSON. Of a large one, quotas are dropped first, then the requested amounts.
pub(super) fn to_json(denial: &Denial, id: u64, time: Timestamp) -> serde_json::Result<String> {
    let mut denial = Denial { id, time, ..denial.clone() };
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

/// The limits that the request counts against, and whether there are more than are kept.
fn wanted_of(quotas: &[CheckedQuota]) -> (Vec<CheckedQuota>, bool) {
    let mut wanted = Vec::new();
    let mut room = LIMITS;
    for quota in quotas {
        let is_wanted = |limit: &&CheckedLimit| !limit.requested.is_zero();
        let count = quota.resources.iter().filter(is_wanted).count();
        if count == 0 {
            continue;
        }
        if wanted.len() == QUOTAS || room == 0 {
            return (wanted, true);
        }
        let kept = quota.resources.iter().filter(is_wanted).take(room);
        wanted.push(CheckedQuota {
            name: quota.name.clone(),
            kind: quota.kind,
            resources: kept.cloned().collect(),
        });
        if count > room {
            return (wanted, true);
        }
        room -= count;
    }
    (wanted, false)
}
