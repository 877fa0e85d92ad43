//! Payloads: parses bytes into facts about objects.
//!
//! A payload is one JSON value, several values with one per line, or a JSON array of values. Each value is a Kubernetes
//! watch event, a plain event, or a CloudEvent that wraps one of them; its fields distinguish these shapes. Events are
//! parsed one by one on demand, so the memory does not grow with the number of events. An event that cannot be parsed
//! yields a [`Rejected`] in its place, and parsing continues after it.

mod check;
mod kinds;
mod kubernetes;
mod plain;
mod progress;
mod shape;
mod split;
mod wire;

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use quota_core::{
    decide::{Adopted, GroupBounds, Sighting},
    event::Observed,
    source::Observation,
};
use quota_semantics::{
    Name, Timestamp,
    admission::Charging,
    object::{self, GroupResource, TypeMeta},
};

pub(super) use self::check::SIGHTING_MAX_BYTES;
use self::{
    kinds::{InternCache, Kind},
    split::Values,
    wire::Field,
};
use crate::log_limiter::cut;
use crate::metrics::Rejection;

/// Rejected events of one payload before the rest is skipped: such a payload is not a list of events, and each
/// rejection takes memory.
pub(crate) const REJECTED_MAX: u64 = 10_000;

/// Longest reason of a rejection, in bytes. Parsers quote the offending input.
const REASON_MAX_BYTES: usize = 512;

/// Parses payloads by the operator's settings.
#[derive(Debug, Default)]
pub struct Reader {
    /// Plural names of kinds for which Kubernetes' naming rules give the wrong plural.
    plurals: BTreeMap<String, BTreeMap<String, GroupResource>>,
    /// Cached kinds, by the apiVersion and kind of objects.
    kinds: InternCache<TypeMeta, Arc<Kind>>,
    /// Cached kinds, by the resource of plain events.
    resources: InternCache<String, Arc<Kind>>,
    /// Cached names of resources in usages.
    names: InternCache<String, Name>,
    /// Whether events of kinds ResourceQuota and ClusterResourceQuota set quotas and groups.
    adopt: bool,
    /// Most groups from the root of a tree to a leaf.
    group_depth: usize,
    /// The workloads that are charged for their pods.
    charging: Charging,
}

/// One parsed event.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// What it reports, as sent just now; none if it does not matter to quotas, such as a Node.
    pub observation: Option<Observation>,
    /// Approximate size in bytes, as received or as an entry, whichever is larger.
    pub size: usize,
}

/// An object of a listing.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The object.
    pub object: Box<Observed>,
    /// The quota, if the object is one and quotas are adopted.
    pub quota: Option<Box<Adopted>>,
}

/// One rejected event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The event's line, or its place in the array; from 1.
    pub line: u64,
    /// The category of the error, for statistics.
    pub rejection: Rejection,
    /// The error message, for people.
    pub reason: String,
    /// The kind of the object, as in `pods`, if it could be read.
    pub resource: Option<Name>,
    /// The event as received.
    pub text: Bytes,
}

/// Why an event is rejected.
#[derive(Debug)]
struct Fault {
    rejection: Rejection,
    reason: String,
}

impl Fault {
    fn new(rejection: Rejection, reason: impl Into<String>) -> Self {
        let mut reason = reason.into();
        if reason.len() > REASON_MAX_BYTES {
            reason.truncate(cut(&reason, REASON_MAX_BYTES).len());
            reason.push('…');
        }
        Self { rejection, reason }
    }

    fn field(reason: impl Into<String>) -> Self {
        Self::new(Rejection::InvalidField, reason)
    }

    fn shape(reason: impl Into<String>) -> Self {
        Self::new(Rejection::UnknownShape, reason)
    }
}

impl From<std::str::Utf8Error> for Fault {
    fn from(error: std::str::Utf8Error) -> Self {
        Self::new(Rejection::Malformed, error.to_string())
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        let rejection = match error.is_data() {
            true => Rejection::InvalidField,
            false => Rejection::Malformed,
        };
        Self::new(rejection, error.to_string())
    }
}

impl Reader {
    /// A reader with the plural names of these kinds (`Widget.example.com`; a kind of the core group has no dot); all
    /// other plurals follow Kubernetes' rules. `adopt`: events of kinds ResourceQuota and ClusterResourceQuota set
    /// quotas and groups.
    #[must_use]
    pub fn new(kinds: &BTreeMap<String, String>, adopt: bool) -> Self {
        let mut plurals: BTreeMap<String, BTreeMap<String, GroupResource>> = BTreeMap::new();
        for (kind, plural) in kinds {
            let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
            let resource = GroupResource::new(group, plural);
            plurals.entry(group.to_owned()).or_default().insert(kind.to_owned(), resource);
        }
        Self { plurals, adopt, group_depth: GroupBounds::default().max_depth, ..Self::default() }
    }

    /// The same reader, with these workloads charged for their pods.
    #[must_use]
    pub fn with_charging(mut self, charging: Charging) -> Self {
        self.charging = charging;
        self
    }

    /// The same reader, which accepts trees of groups of this depth.
    #[must_use]
    pub(crate) const fn with_group_depth(mut self, most: usize) -> Self {
        self.group_depth = most;
        self
    }

    /// The workloads that are charged for their pods.
    #[must_use]
    pub const fn charging(&self) -> &Charging {
        &self.charging
    }

    /// Parses the events of a payload. Pods whose deletion is due by `now` no longer count.
    #[must_use]
    pub fn read(self: &Arc<Self>, payload: Bytes, now: Timestamp) -> Events {
        self.events(payload, now, None)
    }

    /// Parses the `data` of a CloudEvent of this type, received in binary mode.
    #[must_use]
    pub(crate) fn read_cloud_event(
        self: &Arc<Self>,
        event_type: &str,
        data: Bytes,
        now: Timestamp,
    ) -> Events {
        self.events(data, now, wire::Change::of_cloud_event(event_type))
    }

    /// Parses an object of a listing: a Kubernetes object, or the fields of a plain event. None if it does not matter
    /// to quotas.
    ///
    /// # Errors
    /// The error message, for people.
    pub fn read_listed(&self, text: &[u8], now: Timestamp) -> Result<Option<Listed>, String> {
        let text = std::str::from_utf8(text).map_err(Fault::from);
        match text.and_then(|text| shape::read_listed(self, text, now)) {
            Ok(Some(Sighting::Alive { object, quota })) => Ok(Some(Listed { object, quota })),
            Ok(_) => Ok(None),
            Err(fault) => Err(fault.reason),
        }
    }

    fn events(
        self: &Arc<Self>,
        payload: Bytes,
        now: Timestamp,
        change: Option<wire::Change>,
    ) -> Events {
        let (values, refused) = match change {
            Some(_) => (Values::whole(&payload), None),
            None => Values::split(&payload),
        };
        Events { reader: self.clone(), payload, values, refused, change, now, rejected: 0 }
    }

    /// The kind of an object.
    fn kind(&self, type_meta: &TypeMeta) -> Result<Arc<Kind>, Fault> {
        let found_out = || {
            let (group, kind) = (type_meta.group(), &type_meta.kind);
            let configured = self.plurals.get(group);
            let configured = configured.and_then(|kinds| kinds.get(&**kind));
            let resource = configured.cloned().unwrap_or_else(|| GroupResource {
                group: group.into(),
                resource: object::plural(group, kind),
            });
            Kind::new(resource).map(Arc::new)
        };
        self.kinds.get(type_meta, found_out)
    }

    /// The kind of an object, by the name that its event gives it, if any: the definition of a kind may have a name that
    /// does not follow from the object.
    fn kind_of(
        &self,
        resource: Option<&Field<'_>>,
        type_meta: &TypeMeta,
    ) -> Result<Arc<Kind>, Fault> {
        if resource.is_none() {
            return self.kind(type_meta);
        }
        let kind = self.resource(plain::text("resource", resource)?)?;
        match kind.resource.group == type_meta.group() {
            true => Ok(kind),
            false => Err(Fault::field(format!(
                "resource {:?} is of another group than the object's apiVersion {:?}",
                &*kind.name, &*type_meta.api_version
            ))),
        }
    }

    /// The kind with this name: `pods`, `deployments.apps`.
    fn resource(&self, text: &str) -> Result<Arc<Kind>, Fault> {
        self.resources.get(text, || {
            let resource = text.parse();
            let resource = resource.map_err(|error| Fault::field(format!("resource: {error}")))?;
            Kind::new(resource).map(Arc::new)
        })
    }

    /// The name of a resource in a usage.
    fn resource_name(&self, text: &str) -> Result<Name, Fault> {
        self.names.get(text, || {
            check::resource_name(text)?;
            Ok(Name::from(text))
        })
    }
}

/// The events of a payload, in order.
#[derive(Debug)]
pub struct Events {
    reader: Arc<Reader>,
    payload: Bytes,
    values: Values,
    refused: Option<Fault>,
    /// The change type, if the payload is the object itself.
    change: Option<wire::Change>,
    now: Timestamp,
    rejected: u64,
}

impl Iterator for Events {
    type Item = Result<Incoming, Rejected>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(fault) = self.refused.take() {
            return Some(Err(self.reject(1, 0..self.payload.len(), fault)));
        }
        if self.rejected >= REJECTED_MAX {
            let (line, rest) = self.values.rest(&self.payload)?;
            let reason = format!("not read, since {REJECTED_MAX} events before it were rejected");
            return Some(Err(self.reject(line, rest, Fault::new(Rejection::TooLarge, reason))));
        }
        let (line, place) = self.values.next(&self.payload)?;
        Some(match self.read(&self.payload[place.clone()]) {
            Ok(observation) => {
                let size = match &observation {
                    Some(Observation::Sighting(sighting)) => place.len().max(check::size(sighting)),
                    _ => place.len(),
                };
                Ok(Incoming { observation, size })
            }
            Err(fault) => Err(self.reject(line, place, fault)),
        })
    }
}

impl Events {
    fn read(&self, text: &[u8]) -> Result<Option<Observation>, Fault> {
        let text = std::str::from_utf8(text)?;
        match self.change {
            Some(change) => shape::read_object(&self.reader, change, text, self.now)
                .map(|sighting| sighting.map(Observation::Sighting)),
            None => shape::read(&self.reader, text, self.now),
        }
    }

    /// The kind of a rejected event's object, if it can be determined with certainty.
    fn kind_of(&self, text: &[u8]) -> Option<Name> {
        let kind = kinds::of_rejected(&self.reader, self.change.is_some(), text)?;
        Some(kind.name.clone())
    }

    fn reject(&mut self, line: u64, place: std::ops::Range<usize>, fault: Fault) -> Rejected {
        self.rejected += 1;
        let Fault { rejection, reason } = fault;
        Rejected {
            line,
            rejection,
            reason,
            resource: self.kind_of(&self.payload[place.clone()]),
            text: self.payload.slice(place),
        }
    }
}

#[cfg(test)]
mod tests;
