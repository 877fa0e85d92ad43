//! The stored record of a denial.

use std::sync::Arc;

use quota_core::{
    decide::{CheckedQuota, Refusal, Request},
    event::Actor,
    state::Head,
};
use quota_semantics::{Name, Timestamp, quantity::Quantity, resource::ResourceList, uid::Uid};
use serde::Serialize;

use crate::{
    log_limiter::cut,
    reason::{Reason, of_refusal},
};

/// Most quotas that a record keeps: those that the request counts against.
const QUOTAS: usize = 32;

/// Approximate size limit of a record; details are dropped from a larger one.
const RECORD_BYTES: usize = 32 * 1024;

/// Longest detail text of a record, in bytes.
const DETAIL_BYTES: usize = 4096;

/// A denial, before its record is written.
pub(super) struct NewDenial {
    pub(super) namespace: Name,
    pub(super) head: Head,
    actor: Arc<Actor>,
    object: Object,
    reason: Reason,
    detail: String,
    quotas: Vec<CheckedQuota>,
    retry_after: Option<Timestamp>,
    fits_when_empty: Option<bool>,
}

/// The object of the request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    uid: Uid,
    resource: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: Box<str>,
    requested: ResourceList,
}

impl Object {
    fn without_amounts(&self) -> Self {
        Self {
            uid: self.uid.clone(),
            resource: self.resource.clone(),
            name: self.name.clone(),
            requested: ResourceList::new(),
        }
    }
}

/// The record of a denial, as stored and shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    id: u64,
    time: Timestamp,
    namespace: &'a Name,
    actor: &'a Actor,
    object: &'a Object,
    reason: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    quotas: &'a [CheckedQuota],
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fits_when_empty: Option<bool>,
    /// Set if details were dropped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shortened: bool,
    as_of: Head,
}

impl NewDenial {
    /// The record of a refusal; none if the refusal is not a denial.
    pub(super) fn of(
        actor: &Arc<Actor>,
        request: &Request,
        refusal: &Refusal,
        head: Head,
    ) -> Option<Self> {
        let denied = match refusal {
            Refusal::Denied(denied) => Some(denied),
            Refusal::TooManyPending { .. } => None,
            _ => return None,
        };
        let detail = cut(&refusal.to_string(), DETAIL_BYTES).to_owned();
        Some(Self {
            namespace: request.namespace.clone(),
            head,
            actor: actor.clone(),
            object: Object {
                uid: request.uid.clone(),
                resource: request.resource.to_string(),
                name: request.name.clone(),
                requested: request.footprint.resources.clone(),
            },
            reason: of_refusal(refusal),
            detail,
            quotas: denied
                .map(|denied| wanted_of(&denied.quotas))
                .unwrap_or_default(),
            retry_after: denied.and_then(|denied| denied.retry_after),
            fits_when_empty: denied.map(|denied| denied.fits_when_empty),
        })
    }

    pub(super) fn to_json(&self, id: u64, time: Timestamp) -> serde_json::Result<String> {
        let mut quotas = &*self.quotas;
        let mut object = &self.object;
        let without_amounts;
        let mut json = self.json(id, time, object, quotas)?;
        while json.len() > RECORD_BYTES {
            match quotas.len() {
                0 if object.requested.is_empty() => break,
                0 => {
                    without_amounts = object.without_amounts();
                    object = &without_amounts;
                    json = self.json(id, time, object, quotas)?;
                    break;
                }
                count => quotas = &quotas[..count / 2],
            }
            json = self.json(id, time, object, quotas)?;
        }
        Ok(json)
    }

    fn json(
        &self,
        id: u64,
        time: Timestamp,
        object: &Object,
        quotas: &[CheckedQuota],
    ) -> serde_json::Result<String> {
        let whole = [
            quotas.len() == self.quotas.len(),
            object.requested.len() == self.object.requested.len(),
        ];
        serde_json::to_string(&Record {
            id,
            time,
            namespace: &self.namespace,
            actor: &self.actor,
            object,
            reason: self.reason.as_str(),
            detail: &self.detail,
            quotas,
            shortened: whole.contains(&false),
            retry_after: self.retry_after,
            fits_when_empty: self.fits_when_empty,
            as_of: self.head,
        })
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
