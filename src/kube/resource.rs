//! The stored kinds: ResourceQuota and ClusterResourceQuota. All differences between them are here and in
//! [`Object`](super::object::Object); reading, writing and watching do not depend on the kind.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use quota_core::{
    decide::{
        GroupChange, Policy, Precondition, QuotaChange, Refusal, belongs_to_source, delete_group,
        delete_quota, set_group, set_quota, unless_adopted,
    },
    event::{Actor, Event, GroupRecord, QuotaRecord, Sequence},
    state::{CopiedQuota, QuotaView, State},
};
use quota_semantics::{
    Name, Timestamp,
    group::{self, validation as of_groups},
    in_microseconds,
    quota::{
        self, FieldError,
        manifest::{DecodeError, Metadata},
        validation as of_quotas,
    },
    resource::ResourceList,
    uid::Uid,
};
use serde_json::Value;

use super::{Failure, Result};
use crate::{
    auth::Reader,
    fairness::{BYTES_PER_AMOUNT, Turn},
    problem::Problem,
    render,
    routes::path_parameters,
    writer::DecisionContext,
};

/// The key of an object: its kind, namespace (empty if its kind has none) and name.
///
/// The path of a request names an object or a collection. The key of a collection has no name, and if it is that of all
/// namespaces, no namespace either.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) kind: Kind,
    pub(super) namespace: Name,
    pub(super) name: Name,
}

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> std::result::Result<Self, Problem> {
        let is_core = parts.uri.path().starts_with("/api/");
        let found = path_parameters(parts)?;
        let mut names = found.iter().map(|(_, name)| Name::from(name));
        let (kind, namespace) = match is_core {
            true => (Kind::Quota, names.next().unwrap_or_default()),
            false => (Kind::Group, Name::default()),
        };
        Ok(Self { kind, namespace, name: names.next().unwrap_or_default() })
    }
}

impl Key {
    /// The object, to compute its numbers later.
    pub(super) fn copied(&self, state: &State) -> Option<CopiedView> {
        match self.kind {
            Kind::Quota => state.copied_quota(&self.namespace, &self.name).map(CopiedView::Quota),
            Kind::Group => render::group::Copied::of(state, &self.name).map(CopiedView::Group),
        }
    }

    /// The object as [`copied`](Self::copied) if the caller may read it: of a group with those members alone that the
    /// caller may read. Rights in the namespace of a quota are checked elsewhere.
    pub(super) fn readable(&self, state: &State, reader: &Reader) -> Option<CopiedView> {
        match self.kind {
            Kind::Quota => self.copied(state),
            Kind::Group => {
                let group = state.copied_group(&self.name)?;
                render::group::Copied::for_reader(state, group, reader).map(CopiedView::Group)
            }
        }
    }

    /// Whether the object exists.
    pub(super) fn is_in(&self, state: &State) -> bool {
        match self.kind {
            Kind::Quota => state.quota_record(&self.namespace, &self.name).is_some(),
            Kind::Group => state.group_record(&self.name).is_some(),
        }
    }

    /// Whether the object comes from a source, which would undo a change.
    pub(super) fn belongs_to_source(&self, state: &State, policy: &Policy) -> bool {
        let namespace = match self.kind {
            Kind::Quota => Some(&self.namespace),
            Kind::Group => None,
        };
        belongs_to_source(state, policy, namespace, &self.name)
    }
}

/// The written part of an object: metadata and spec.
#[derive(Clone, Debug)]
pub(super) enum Manifest {
    Quota(Box<quota::Manifest>),
    Group(Box<group::Manifest>),
}

impl Manifest {
    pub(super) fn from_json(kind: Kind, json: &[u8]) -> std::result::Result<Self, DecodeError> {
        Ok(match kind {
            Kind::Quota => Self::Quota(Box::new(quota::Manifest::from_json(json)?)),
            Kind::Group => Self::Group(Box::new(group::Manifest::from_json(json)?)),
        })
    }

    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Quota(_) => Kind::Quota,
            Self::Group(_) => Kind::Group,
        }
    }

    pub(super) const fn metadata(&self) -> &Metadata {
        match self {
            Self::Quota(manifest) => &manifest.metadata,
            Self::Group(manifest) => &manifest.metadata,
        }
    }

    pub(super) const fn metadata_mut(&mut self) -> &mut Metadata {
        match self {
            Self::Quota(manifest) => &mut manifest.metadata,
            Self::Group(manifest) => &mut manifest.metadata,
        }
    }

    /// The limits of the spec.
    pub(super) const fn hard(&self) -> &ResourceList {
        &self.limits().hard
    }

    const fn limits(&self) -> &quota::Spec {
        match self {
            Self::Quota(manifest) => &manifest.spec,
            Self::Group(manifest) => &manifest.spec.quota,
        }
    }

    /// Warnings about a valid object.
    pub(super) fn warnings(&self) -> Vec<String> {
        of_quotas::warnings(self.limits())
    }

    /// Errors of the object as a new one.
    pub(super) fn validate_create(&self) -> Vec<FieldError> {
        match self {
            Self::Quota(manifest) => of_quotas::validate_create(manifest),
            Self::Group(manifest) => of_groups::validate_create(manifest),
        }
    }

    /// Errors of the object as a replacement of the stored one.
    pub(super) fn validate_update(&self, stored: &Self) -> Vec<FieldError> {
        match (self, stored) {
            (Self::Quota(new), Self::Quota(old)) => of_quotas::validate_update(new, old),
            (Self::Group(new), Self::Group(old)) => of_groups::validate_update(new, old),
            _ => Vec::new(),
        }
    }

    /// Takes fields from the stored object that an update cannot change or may leave out.
    pub(super) fn inherit(&mut self, stored: &Self) {
        match (self, stored) {
            (Self::Quota(new), Self::Quota(old)) => new.inherit(old),
            (Self::Group(new), Self::Group(old)) => new.inherit(old),
            _ => {}
        }
    }

    /// Whether the manifest equals the stored one.
    pub(super) fn repeats(&self, stored: &Self) -> bool {
        match (self, stored) {
            (Self::Quota(new), Self::Quota(old)) => new.repeats(old),
            (Self::Group(new), Self::Group(old)) => new.repeats(old),
            _ => false,
        }
    }

    /// The manifest as JSON, in the form that is compared and merged.
    pub(super) fn to_json(&self) -> Result<Value> {
        match self {
            Self::Quota(manifest) => to_json(manifest),
            Self::Group(manifest) => to_json(manifest),
        }
    }

    /// The command that stores the manifest.
    pub(super) fn to_change(&self, fresh_uid: Uid, precondition: Precondition) -> Change {
        let precondition = Some(precondition);
        match self {
            Self::Quota(manifest) => Change::Quota(Box::new(QuotaChange {
                namespace: manifest.metadata.namespace.clone(),
                name: manifest.metadata.name.clone(),
                fresh_uid,
                spec: manifest.spec.clone(),
                metadata: render::quota::stored_metadata(&manifest.metadata),
                precondition,
            })),
            Self::Group(manifest) => {
                let (spec, _) = manifest.spec();
                Change::Group(Box::new(GroupChange {
                    name: manifest.metadata.name.clone(),
                    fresh_uid,
                    metadata: render::group::stored_metadata(manifest, &spec),
                    spec,
                    precondition,
                }))
            }
        }
    }
}

/// A command that sets or deletes an object.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Quota(Box<QuotaChange>),
    Group(Box<GroupChange>),
    Deletion(Key, Precondition),
}

impl Change {
    /// Decides the change of the object with this key, and records it unless this is a dry run. Returns the object that
    /// is there then (none for a dry run), and the head.
    pub(super) fn carry_out(
        &self,
        context: &mut DecisionContext<'_>,
        key: &Key,
        actor: &Arc<Actor>,
        is_dry_run: bool,
    ) -> std::result::Result<(Option<CopiedView>, Sequence), Refusal> {
        let transaction = &mut context.transaction;
        let (state, now) = (transaction.state(), transaction.now());
        let events = self.decide(state, now, context.policy)?;
        if is_dry_run {
            return Ok((None, transaction.record(actor, Vec::new())));
        }
        let head = transaction.record(actor, events);
        Ok((key.copied(transaction.state()), head))
    }

    /// The events that change the object.
    fn decide(
        &self,
        state: &State,
        now: Timestamp,
        policy: &Policy,
    ) -> std::result::Result<Vec<Event>, Refusal> {
        let events = match self {
            Self::Quota(change) => {
                policy.bounds.check_quota(state, change)?;
                set_quota(state, now, change)?
            }
            Self::Group(change) => {
                policy.bounds.check_group(state, change)?;
                set_group(state, now, change, &policy.groups)?
            }
            Self::Deletion(key, precondition) => match key.kind {
                Kind::Quota => delete_quota(state, &key.namespace, &key.name, Some(*precondition))?,
                Kind::Group => delete_group(state, &key.name, Some(*precondition))?,
            },
        };
        unless_adopted(state, policy, events)
    }
}

/// An object as of one moment. Its numbers are computed while the state goes on.
#[derive(Clone, Debug)]
pub(super) enum CopiedView {
    Quota(CopiedQuota),
    Group(render::group::Copied),
}

impl CopiedView {
    /// How many amounts it shows.
    pub(super) fn amounts(&self) -> usize {
        match self {
            Self::Quota(copied) => {
                copied.amounts() + copied.record().metadata.len() / BYTES_PER_AMOUNT
            }
            Self::Group(copied) => copied.amounts(),
        }
    }

    /// The object with its numbers and all that it holds, made with pauses.
    pub(super) fn view(self, turn: &Turn) -> View {
        match self {
            Self::Quota(copied) => View::Quota(copied.view()),
            Self::Group(copied) => View::Group(copied.seen(|| turn.pause())),
        }
    }

    /// The object with its own numbers alone.
    pub(super) fn numbers(self) -> View {
        match self {
            Self::Quota(copied) => View::Quota(copied.numbers()),
            Self::Group(copied) => View::Group(copied.without_members()),
        }
    }
}

/// How many amounts a quota has; its metadata is read and shown, too.
fn work_of_quota(view: &QuotaView) -> usize {
    let holds = view.holds.iter().map(|(_, amounts)| 1 + amounts.len());
    view.figures.len() + holds.sum::<usize>() + view.record.metadata.len() / BYTES_PER_AMOUNT
}

/// An object with its numbers.
#[derive(Clone, Debug)]
pub(super) enum View {
    Quota(QuotaView),
    Group(render::group::GroupWithMembers),
}

impl View {
    pub(super) fn key(&self) -> Key {
        self.record().key()
    }

    pub(super) fn record(&self) -> Record {
        match self {
            Self::Quota(view) => Record::Quota(view.record.clone()),
            Self::Group(seen) => Record::Group(seen.view.record.clone()),
        }
    }

    /// The entry that set it.
    pub(super) const fn entry(&self) -> Sequence {
        match self {
            Self::Quota(view) => view.entry,
            Self::Group(seen) => seen.view.entry,
        }
    }

    /// How many amounts it has; its metadata is read and shown, too.
    pub(super) fn work(&self) -> usize {
        match self {
            Self::Quota(view) => work_of_quota(view),
            Self::Group(seen) => seen.amounts(),
        }
    }
}

/// An object as stored.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Quota(Arc<QuotaRecord>),
    Group(Arc<GroupRecord>),
}

impl Record {
    pub(super) fn key(&self) -> Key {
        match self {
            Self::Quota(record) => Key {
                kind: Kind::Quota,
                namespace: record.namespace.clone(),
                name: record.name.clone(),
            },
            Self::Group(record) => {
                Key { kind: Kind::Group, namespace: Name::default(), name: record.name.clone() }
            }
        }
    }

    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Quota(_) => Kind::Quota,
            Self::Group(_) => Kind::Group,
        }
    }

    /// The bytes of its stored metadata.
    pub(super) fn metadata_bytes(&self) -> usize {
        match self {
            Self::Quota(record) => record.metadata.len(),
            Self::Group(record) => record.metadata.len(),
        }
    }

    pub(super) fn uid(&self) -> &Uid {
        match self {
            Self::Quota(record) => &record.uid,
            Self::Group(record) => &record.uid,
        }
    }

    /// The object without numbers, with this version.
    pub(super) fn manifest(&self, version: Sequence) -> Manifest {
        match self {
            Self::Quota(record) => {
                Manifest::Quota(Box::new(render::quota::manifest(record, version)))
            }
            Self::Group(record) => {
                Manifest::Group(Box::new(render::group::manifest(record, version)))
            }
        }
    }
}

/// A value as JSON, with times in the API's format.
pub(super) fn to_json(value: &impl serde::Serialize) -> Result<Value> {
    let value = in_microseconds(|| serde_json::to_value(value));
    value.map_err(|error| Failure::internal(&error))
}

/// A stored kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A quota of one namespace.
    Quota,
    /// A quota over many namespaces.
    Group,
}

/// The API group of ClusterResourceQuota.
pub(super) const QUOTA_GROUP: &str = group::manifest::GROUP;
pub(super) const QUOTA_GROUP_VERSION: &str = "v1";

impl Kind {
    pub(super) const fn api_version(self) -> &'static str {
        match self {
            Self::Quota => quota::manifest::API_VERSION,
            Self::Group => group::manifest::API_VERSION,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Quota => quota::manifest::KIND,
            Self::Group => group::manifest::KIND,
        }
    }

    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::Quota => "resourcequotas",
            Self::Group => group::manifest::PLURAL,
        }
    }

    /// The plural with the API group, as in messages about objects.
    pub(super) fn resource(self) -> String {
        self.qualified(self.plural())
    }

    /// The kind with the API group, as in messages.
    pub(super) fn qualified_name(self) -> String {
        self.qualified(self.name())
    }

    fn qualified(self, name: &str) -> String {
        match self {
            Self::Quota => name.to_owned(),
            Self::Group => format!("{name}.{QUOTA_GROUP}"),
        }
    }

    /// The kind of an object that this process has made.
    pub(super) fn of_object(object: &Value) -> Self {
        match object["kind"].as_str() {
            Some(group::manifest::KIND) => Self::Group,
            _ => Self::Quota,
        }
    }
}
