//! Payloads: from bytes to facts about objects.
//!
//! A payload is one JSON value, several of them with each on a line of its own, or a JSON array of them. Each is a
//! Kubernetes watch event, a plain event, or one of these wrapped into a CloudEvent; it is recognized by its
//! fields. Events are read one by one as they are requested, so that a payload with many of them needs no more
//! memory than one with few; what cannot be read takes up its place as [`Rejected`], and reading goes on behind it.

mod bookmark;
mod check;
mod field;
mod intern_cache;
mod kinds;
mod kubernetes;
mod listed;
mod plain;
mod rejected;
mod relist;
mod shape;
mod split;
mod text;
mod watched;
mod wire;

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use quota_core::{
    decide::{Adopted, Bookmark, GroupBounds, Relist, Sighting},
    event::Observed,
};
use quota_semantics::{
    Name, Timestamp,
    admission::Charging,
    object::{self, GroupResource, TypeMeta},
};

pub(super) use self::check::SIGHTING_MAX_BYTES;
use self::{intern_cache::InternCache, kinds::Kind, split::Values};
use crate::metrics::Rejection;
use crate::throttle::cut;

/// Rejected events of one payload before the rest of it is given up: it is no list of events, and each takes room.
pub(crate) const REJECTED_MAX: u64 = 10_000;

/// Longest reason of a rejection, in bytes. Parsers quote what they do not understand.
const REASON_MAX_BYTES: usize = 512;

/// How payloads are read: what the operator has set.
#[derive(Debug, Default)]
pub struct Reader {
    /// Plural names of kinds that the rules of Kubernetes' own kinds would get wrong.
    plurals: BTreeMap<String, BTreeMap<String, GroupResource>>,
    /// Kinds, by the apiVersion and kind that objects give.
    kinds: InternCache<Arc<Kind>>,
    /// Kinds, by the resource that plain events give.
    resources: InternCache<Arc<Kind>>,
    /// Names of resources that usages give.
    names: InternCache<Name>,
    /// Whether events of kinds ResourceQuota and ClusterResourceQuota set quotas and groups.
    adopt: bool,
    /// Most groups from the root of a tree to a leaf.
    group_depth: usize,
    /// The workloads that are charged for their pods.
    charging: Charging,
}

/// One event that was understood.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The fact about an object; none if it is of no concern to quotas (a bookmark, an object of the
    /// cluster).
    pub sighting: Option<Sighting>,
    /// The step of a relist.
    pub relist: Option<Relist>,
    /// How far its publisher has reported each kind.
    pub bookmark: Option<Bookmark>,
    /// About how long it is, as it came or as an entry, whichever is more, in bytes.
    pub size: usize,
}

/// An object of a listing.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The object.
    pub object: Box<Observed>,
    /// The quota that it is, if quotas are adopted.
    pub quota: Option<Box<Adopted>>,
}

impl Listed {
    /// About how long the entries of its correction will be, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let quota = self.quota.as_deref();
        check::size_of(&self.object, quota).saturating_mul(2)
    }
}

/// The content of an event.
#[derive(Debug)]
enum Content {
    /// Nothing that is of concern to quotas.
    Nothing,
    Sighting(Sighting),
    Relist(Relist),
    Bookmark(Bookmark),
}

impl Content {
    fn of(sighting: Option<Sighting>) -> Self {
        sighting.map_or(Self::Nothing, Self::Sighting)
    }
}

/// One event that was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its line, or its place in the array; from 1.
    pub line: u64,
    /// What is wrong with it, for statistics.
    pub rejection: Rejection,
    /// What is wrong with it, for people.
    pub reason: String,
    /// The kind that it is about, as in `pods`, if so much could be read.
    pub resource: Option<Name>,
    /// The event as it came.
    pub text: Bytes,
}

/// What is wrong with an event.
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
    /// A reader with the plural names of these kinds (`Widget.example.com`; a kind of the core group has no dot)
    /// besides those that can be guessed. `adopt`: events of kinds ResourceQuota and ClusterResourceQuota set quotas and
    /// groups.
    #[must_use]
    pub fn new(kinds: &BTreeMap<String, String>, adopt: bool) -> Self {
        let mut known: BTreeMap<String, BTreeMap<String, GroupResource>> = BTreeMap::new();
        for (kind, plural) in kinds {
            let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
            let resource = GroupResource::new(group, plural);
            known
                .entry(group.to_owned())
                .or_default()
                .insert(kind.to_owned(), resource);
        }
        Self {
            plurals: known,
            adopt,
            group_depth: GroupBounds::default().max_depth,
            ..Self::default()
        }
    }

    /// The same reader, that has these workloads charged for their pods.
    #[must_use]
    pub fn with_charging(mut self, charging: Charging) -> Self {
        self.charging = charging;
        self
    }

    /// The same reader, that takes trees of so many groups from root to leaf.
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

    /// Reads the events of a payload. Pods that are to be gone by `now` have ceased to count.
    #[must_use]
    pub fn read(self: &Arc<Self>, payload: Bytes, now: Timestamp) -> Events {
        self.events(payload, now, None)
    }

    /// Reads the `data` of a CloudEvent of this type that came in binary mode.
    #[must_use]
    pub(crate) fn read_cloud_event(
        self: &Arc<Self>,
        event_type: &str,
        data: Bytes,
        now: Timestamp,
    ) -> Events {
        self.events(data, now, wire::Change::of_cloud_event(event_type))
    }

    /// Reads an object of a listing: a Kubernetes object, or the fields of a plain event. None: it is of no concern to
    /// quotas.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn read_listed(&self, text: &[u8], now: Timestamp) -> Result<Option<Listed>, String> {
        let text = std::str::from_utf8(text).map_err(Fault::from);
        match text.and_then(|text| listed::read(self, text, now)) {
            Ok(Content::Sighting(Sighting::Alive { object, quota })) => {
                Ok(Some(Listed { object, quota }))
            }
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
        Events {
            reader: self.clone(),
            payload,
            values,
            refused,
            change,
            now,
            rejected: 0,
        }
    }

    /// The kind that an object says it is of.
    fn kind(&self, type_meta: &TypeMeta) -> Result<Arc<Kind>, Fault> {
        let TypeMeta { api_version, kind } = type_meta;
        let found_out = || {
            let group = type_meta.group();
            let known = self.plurals.get(group);
            let known = known.and_then(|kinds| kinds.get(&**kind));
            let resource = known.cloned().unwrap_or_else(|| GroupResource {
                group: group.into(),
                resource: object::plural(group, kind),
            });
            Kind::new(resource).map(Arc::new)
        };
        // With the length, no two pairs make the same text.
        let text = format!("{} {api_version} {kind}", kind.len());
        self.kinds.get(&text, found_out)
    }

    /// The kind that is written like this: `pods`, `deployments.apps`.
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
    /// The payload is an object by itself, and this is what happened to it.
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
            let reason =
                format!("not read, since {REJECTED_MAX} events before it could not be understood");
            return Some(Err(self.reject(
                line,
                rest,
                Fault::new(Rejection::TooLarge, reason),
            )));
        }
        let (line, place) = self.values.next(&self.payload)?;
        Some(match self.read(&self.payload[place.clone()]) {
            Ok(content) => Ok(Incoming::of(content, place.len())),
            Err(fault) => Err(self.reject(line, place, fault)),
        })
    }
}

impl Incoming {
    fn of(content: Content, length: usize) -> Self {
        let mut incoming = Self {
            sighting: None,
            relist: None,
            bookmark: None,
            size: length,
        };
        match content {
            Content::Nothing => {}
            Content::Sighting(sighting) => {
                incoming.size = length.max(check::size(&sighting));
                incoming.sighting = Some(sighting);
            }
            Content::Relist(relist) => incoming.relist = Some(relist),
            Content::Bookmark(bookmark) => incoming.bookmark = Some(bookmark),
        }
        incoming
    }
}

impl Events {
    fn read(&self, text: &[u8]) -> Result<Content, Fault> {
        let text = std::str::from_utf8(text)?;
        match self.change {
            Some(change) => shape::read_object(&self.reader, change, text, self.now),
            None => shape::read(&self.reader, text, self.now),
        }
    }

    /// The kind that an event is about which cannot be understood, if so much is certain of it.
    fn kind_of(&self, text: &[u8]) -> Option<Name> {
        let kind = rejected::kind(&self.reader, self.change.is_some(), text)?;
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
