//! A requested write: checked against the current object, and decided.

use std::sync::Arc;

use http::HeaderMap;
use quota_core::{
    decide::{Precondition, Refusal},
    event::{Actor, Sequence},
};
use quota_semantics::{Name, quota::validation, syntax, uid::Uid};
use serde_json::Value;
use uuid::Uuid;

use super::{
    Caller, Kube,
    body::{Warnings, undecodable},
    fields,
    kind::Kind,
    object::Object,
    params::Params,
    resource::{Key, Manifest, ObjectPath},
    status::{Failure, Result},
};
use crate::{
    clock::now,
    large::{BYTES_PER_AMOUNT, Permit, Turn, make_sized},
    metrics::{Limit, limit_reached},
    writer::Unavailable,
};

/// How often a change is retried after a concurrent change.
pub(super) const ATTEMPTS: usize = 5;

/// Characters of generated names: no vowels, so that no words arise.
const GENERATED: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const GENERATED_LENGTH: usize = 5;

/// How the fields of a changed object are assigned to managers.
pub(super) enum Managing {
    /// Changed fields belong to the requesting manager.
    Update,
    /// The managers are the result of an apply.
    Apply(Vec<Value>),
}

/// A requested write.
pub(super) struct Request {
    pub(super) kube: Kube,
    /// The object; with an empty name, the body names it.
    pub(super) key: Key,
    pub(super) permit: Permit,
    actor: Arc<Actor>,
    pub(super) manager: String,
    dry_run: bool,
}

impl Request {
    pub(super) fn new(
        kube: Kube,
        Caller(actor): Caller,
        path: &ObjectPath,
        headers: &HeaderMap,
        params: &Params,
    ) -> Result<Self> {
        Ok(Self {
            kube,
            key: path.key(),
            permit: Permit::to_change(&actor.principal),
            actor,
            manager: params.manager(headers)?,
            dry_run: params.dry_run()?,
        })
    }

    /// Reads a text of this many bytes, a long one in the turn of the principal. Nothing is decided yet, and a waiting
    /// request holds its text in memory, so the number of waiting requests is bounded.
    pub(super) async fn read<R: Send + 'static>(
        &self,
        bytes: usize,
        read: impl FnOnce() -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let amounts = bytes / BYTES_PER_AMOUNT;
        let read = make_sized(&self.actor.principal, amounts, move |_: &Turn| read());
        read.await.map_err(|_| Unavailable::Overloaded)?
    }

    /// Parses an object, and completes it with the path's namespace and name.
    pub(super) fn decode(&self, json: &Value) -> Result<Manifest> {
        let kind = self.key.kind;
        let mut manifest = Manifest::from_json(kind, json.to_string().as_bytes())
            .map_err(|error| undecodable(kind, &error))?;
        let metadata = manifest.metadata_mut();
        // As in Kubernetes, that of a cluster-scoped object is ignored.
        if metadata.namespace.is_empty() || kind == Kind::Group {
            metadata.namespace = self.key.namespace.clone();
        }
        if metadata.name.is_empty() {
            metadata.name = self.key.name.clone();
        }
        if metadata.namespace != self.key.namespace {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Failure::bad_request(why));
        }
        if !self.key.name.is_empty() && metadata.name != self.key.name {
            let (name, wanted) = (&metadata.name, &self.key.name);
            let why = format!(
                "the name of the object ({name}) does not match the name on the URL ({wanted})"
            );
            return Err(Failure::bad_request(why));
        }
        Ok(manifest)
    }

    pub(super) async fn create(
        &self,
        mut manifest: Manifest,
        managing: Managing,
        warnings: &mut Warnings,
    ) -> Result<Object> {
        let kind = self.key.kind;
        let errors = manifest.validate_create();
        let name = manifest.metadata().name.clone();
        if !errors.is_empty() {
            return Err(Failure::invalid(kind, &name, &errors));
        }
        warnings.0.extend(manifest.warnings());
        self.manage(None, &mut manifest, managing)?;
        self.check_size(&manifest, None)?;
        let metadata = manifest.metadata_mut();
        let uid = Uuid::new_v4();
        (
            metadata.deletion_timestamp,
            metadata.deletion_grace_period_seconds,
        ) = (None, None);
        metadata.generation = 0;
        if self.dry_run {
            let key = Key {
                name: name.clone(),
                ..self.key.clone()
            };
            let (exists, _) = self.kube.read(|state| key.is_in(state)).await?;
            if exists {
                return Err(Failure::already_exists(kind, &name));
            }
            metadata.uid = uid.to_string();
            metadata.creation_timestamp = Some(now().whole_seconds());
            self.try_out(&manifest, Precondition::Absent).await?;
            return Ok(Object::unwritten(manifest, self.kube.0.ledger.coverage()));
        }
        let uid = Uid::from_uuid(*uid.as_bytes());
        match self.set(&manifest, uid, Precondition::Absent).await? {
            Ok(object) => Ok(object),
            Err(Refusal::Conflict { .. }) => Err(Failure::already_exists(kind, &name)),
            Err(other) => Err(self.failure(&name, &other)),
        }
    }

    /// The failure for a write that the ledger has refused.
    fn failure(&self, name: &str, refusal: &Refusal) -> Failure {
        match refusal {
            Refusal::Invalid(errors) => Failure::invalid(self.key.kind, name, errors),
            Refusal::LimitReached { .. } => {
                Limit::hit_by(refusal).into_iter().for_each(limit_reached);
                Failure::forbidden(refusal.to_string())
            }
            Refusal::Adopted { .. } => Failure::conflict(self.key.kind, name, &refusal.to_string()),
            other => Failure::internal(other),
        }
    }

    /// Checks whether a write would be refused.
    async fn try_out(&self, manifest: &Manifest, precondition: Precondition) -> Result<()> {
        let uid = Uid::from_uuid(*Uuid::new_v4().as_bytes());
        let change = manifest.to_change(uid, precondition);
        let decided = self
            .kube
            .0
            .ledger
            .decide_for(&self.actor.principal, move |context| {
                let (state, now) = (context.transaction.state(), context.transaction.now());
                change.decide(state, now, context.policy).map(|_| ())
            });
        match decided.await.map_err(Failure::from)? {
            Ok(()) | Err(Refusal::Conflict { .. }) => Ok(()),
            Err(refusal) => Err(self.failure(&manifest.metadata().name, &refusal)),
        }
    }

    /// Changes an object; retries after a concurrent change.
    pub(super) async fn update(
        &self,
        change: impl Fn(&Object) -> Result<(Value, Managing)>,
    ) -> Result<Object> {
        let Key { kind, name, .. } = &self.key;
        for _ in 0..ATTEMPTS {
            let (live, head) = self.kube.find(&self.permit, &self.key).await?;
            let live = live.ok_or_else(|| Failure::not_found(*kind, name))?;
            let (json, managing) = change(&live)?;
            let mut manifest = self.decode(&json)?;
            self.check_version(&live, &mut manifest, head)?;
            manifest.inherit(&live.manifest);
            // A write that changes nothing of an object of a source is not an edit, even if a tool records itself as a
            // manager.
            if manifest.repeats(&live.manifest) && self.belongs_to_source().await? {
                return Ok(live);
            }
            let errors = manifest.validate_update(&live.manifest);
            if !errors.is_empty() {
                return Err(Failure::invalid(*kind, name, &errors));
            }
            self.manage(Some(&live), &mut manifest, managing)?;
            self.check_size(&manifest, Some(&live.manifest))?;
            let precondition = Precondition::Version(live.entry);
            if self.dry_run {
                self.try_out(&manifest, precondition).await?;
                return Ok(live.with(manifest));
            }
            let metadata = manifest.metadata();
            if metadata.deletion_timestamp.is_some() && metadata.finalizers.is_empty() {
                return self.end(live, manifest).await;
            }
            let uid = Uid::new(live.uid()).map_err(|error| Failure::internal(&error))?;
            match self.set(&manifest, uid, precondition).await? {
                Ok(object) => return Ok(object),
                // If the body names a version, the next attempt finds it stale.
                Err(Refusal::Conflict { .. }) => {}
                Err(other) => return Err(self.failure(name, &other)),
            }
        }
        Err(Failure::modified(*kind, name))
    }

    /// Whether the object comes from a source.
    async fn belongs_to_source(&self) -> Result<bool> {
        let key = self.key.clone();
        let ledger = &self.kube.0.ledger;
        let decided = ledger.decide_for(&self.actor.principal, move |context| {
            key.belongs_to_source(context.transaction.state(), context.policy)
        });
        decided.await.map_err(Failure::from)
    }

    /// Checks a version named by the new object: only figures may have changed since.
    fn check_version(&self, live: &Object, manifest: &mut Manifest, head: Sequence) -> Result<()> {
        let Key { kind, name, .. } = &self.key;
        let (new, old) = (manifest.metadata_mut(), live.manifest.metadata());
        if !new.uid.is_empty() && new.uid != old.uid {
            let why = format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                new.uid, old.uid
            );
            return Err(Failure::conflict(*kind, name, &why));
        }
        if new.resource_version.is_empty() || new.resource_version == "0" {
            new.resource_version.clone_from(&old.resource_version);
            return Ok(());
        }
        let Ok(version) = new.resource_version.parse::<Sequence>() else {
            let why = format!(
                "Invalid value: {:?}: a resourceVersion is a number",
                new.resource_version
            );
            let causes = vec![(
                "FieldValueInvalid",
                "metadata.resourceVersion".to_owned(),
                why,
            )];
            return Err(Failure::unprocessable(&kind.qualified_name(), name, causes));
        };
        if version < live.entry || version > head {
            return Err(Failure::modified(*kind, name));
        }
        new.resource_version.clone_from(&old.resource_version);
        Ok(())
    }

    /// Assigns the fields of an object to managers. `live` is none for a new one.
    fn manage(
        &self,
        live: Option<&Object>,
        manifest: &mut Manifest,
        managing: Managing,
    ) -> Result<()> {
        let live = live.map(|live| &live.manifest);
        manifest.metadata_mut().managed_fields = match managing {
            Managing::Apply(managed) => managed,
            Managing::Update => {
                let old = live.map(Manifest::to_json).transpose()?;
                let recorded = live.map(|live| live.metadata().managed_fields.as_slice());
                let given = std::mem::take(&mut manifest.metadata_mut().managed_fields);
                let (old, new) = (old.as_ref().zip(recorded), manifest.to_json()?);
                fields::updated(old, &new, &given, &self.manager, now())
            }
        };
        Ok(())
    }

    /// Checks the amount of metadata once more, now that the managers of fields are part of it.
    fn check_size(&self, manifest: &Manifest, live: Option<&Manifest>) -> Result<()> {
        let metadata = manifest.metadata();
        match validation::too_large(metadata, live.map(Manifest::metadata)) {
            None => Ok(()),
            Some(error) => Err(Failure::invalid(self.key.kind, &metadata.name, &[error])),
        }
    }

    async fn set(
        &self,
        manifest: &Manifest,
        fresh_uid: Uid,
        precondition: Precondition,
    ) -> Result<std::result::Result<Object, Refusal>> {
        let change = manifest.to_change(fresh_uid, precondition);
        let key = Key {
            name: manifest.metadata().name.clone(),
            ..self.key.clone()
        };
        let actor = self.actor.clone();
        let decided = self
            .kube
            .0
            .ledger
            .decide_for(&self.actor.principal, move |context| {
                let transaction = &mut context.transaction;
                let (state, now) = (transaction.state(), transaction.now());
                let events = change.decide(state, now, context.policy)?;
                let head = transaction.record(&actor, events);
                Ok((key.copied(transaction.state()), head))
            });
        let (copied, head) = match decided.await.map_err(Failure::from)? {
            Ok((Some(copied), head)) => (copied, head),
            Ok((None, _)) => {
                return Err(Failure::internal(&"an object that was set is not there"));
            }
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.kube.0.changes.reach(head).await;
        Ok(Ok(self.kube.made(&self.permit, copied, head).await))
    }

    /// Deletes an object whose last finalizer is gone.
    async fn end(&self, live: Object, manifest: Manifest) -> Result<Object> {
        let (actor, key) = (self.actor.clone(), self.key.clone());
        let precondition = Precondition::Version(live.entry);
        let decided = self
            .kube
            .0
            .ledger
            .decide_for(&self.actor.principal, move |context| {
                let transaction = &mut context.transaction;
                let events = key.delete(transaction.state(), context.policy, precondition)?;
                transaction.record(&actor, events);
                Ok(())
            });
        match decided.await.map_err(Failure::from)? {
            Ok(()) => Ok(live.with(manifest)),
            Err(Refusal::Conflict { .. }) => Err(Failure::modified(self.key.kind, &self.key.name)),
            Err(Refusal::NotFound(_)) => Err(Failure::not_found(self.key.kind, &self.key.name)),
            Err(other) => Err(self.failure(&self.key.name, &other)),
        }
    }
}

/// A name with this prefix and a random suffix.
pub(super) fn generated(begin: &str) -> Name {
    let most = syntax::MAX_SUBDOMAIN - GENERATED_LENGTH;
    let begin = begin.get(..begin.len().min(most)).unwrap_or_default();
    let random = Uuid::new_v4();
    let suffix = random.as_bytes().iter().take(GENERATED_LENGTH);
    let suffix: String = suffix
        .map(|byte| char::from(GENERATED[usize::from(*byte) % GENERATED.len()]))
        .collect();
    format!("{begin}{suffix}").into()
}
