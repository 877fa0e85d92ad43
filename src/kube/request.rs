//! A write that is asked for: checked against what there is, and decided.

use std::sync::Arc;

use http::HeaderMap;
use quota_core::{
    decide::{Precondition, QuotaChange, Refusal, delete_quota, set_quota, unless_adopted},
    event::{Actor, Sequence},
};
use quota_semantics::{
    Name,
    quota::{Manifest, validation},
    uid::Uid,
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    Caller, Kube,
    body::{Warnings, undecodable},
    fields,
    object::Object,
    params::Params,
    status::{Failure, Result},
};
use crate::{api::render::stored_metadata, writer::now};

/// How often a change is tried again when somebody else was faster.
pub(super) const ATTEMPTS: usize = 5;

/// Characters of generated names: no vowels, so that no words come out.
const GENERATED: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const GENERATED_LENGTH: usize = 5;
const NAME_MAX_BYTES: usize = 253;

/// How the fields of a changed object are managed.
pub(super) enum Managing {
    /// What is different belongs to the manager.
    Update,
    /// As apply found.
    Apply(Vec<Value>),
}

/// A write that is asked for.
pub(super) struct Request {
    pub(super) kube: Kube,
    pub(super) namespace: Name,
    /// Empty: the body says.
    pub(super) name: Name,
    actor: Arc<Actor>,
    pub(super) manager: String,
    dry_run: bool,
}

impl Request {
    pub(super) fn new(
        kube: Kube,
        Caller(actor): Caller,
        namespace: String,
        name: String,
        headers: &HeaderMap,
        params: &Params,
    ) -> Result<Self> {
        Ok(Self {
            kube,
            namespace: namespace.into(),
            name: name.into(),
            actor,
            manager: params.manager(headers)?,
            dry_run: params.dry_run()?,
        })
    }

    /// Reads a quota that was sent, and puts it where the path says.
    pub(super) fn decode(&self, json: &Value) -> Result<Manifest> {
        let mut manifest = Manifest::from_json(json.to_string().as_bytes())
            .map_err(|error| undecodable(&error))?;
        let metadata = &mut manifest.metadata;
        if metadata.namespace.is_empty() {
            metadata.namespace = self.namespace.clone();
        }
        if metadata.name.is_empty() {
            metadata.name = self.name.clone();
        }
        if metadata.namespace != self.namespace {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Failure::bad_request(why));
        }
        if !self.name.is_empty() && metadata.name != self.name {
            let (name, wanted) = (&metadata.name, &self.name);
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
        warnings: &mut Warnings,
    ) -> Result<Object> {
        let errors = validation::validate_create(&manifest);
        let metadata = &mut manifest.metadata;
        let name = metadata.name.clone();
        if !errors.is_empty() {
            return Err(Failure::invalid(&name, &errors));
        }
        warnings.0.extend(validation::warnings(&manifest.spec));
        let uid = Uuid::new_v4();
        (
            metadata.deletion_timestamp,
            metadata.deletion_grace_period_seconds,
        ) = (None, None);
        metadata.generation = 0;
        if self.dry_run {
            let (known, _) = self.kube.quota(&self.namespace, &name).await?;
            if known.is_some() {
                return Err(Failure::already_exists(&name));
            }
            metadata.uid = uid.to_string();
            metadata.creation_timestamp = Some(now().whole_seconds());
            return Ok(Object::unwritten(manifest, self.kube.0.ledger.coverage()));
        }
        let uid = Uid::from_uuid(*uid.as_bytes());
        match self.set(&manifest, uid, Precondition::Absent).await? {
            Ok(object) => Ok(object),
            Err(Refusal::Conflict { .. }) => Err(Failure::already_exists(&name)),
            Err(refused @ Refusal::LimitReached { .. }) => {
                Err(Failure::forbidden(refused.to_string()))
            }
            Err(other) => Err(Failure::internal(&other)),
        }
    }

    /// Changes a quota; tries again if somebody else was faster.
    pub(super) async fn update(
        &self,
        change: impl Fn(&Object) -> Result<(Value, Managing)>,
    ) -> Result<Object> {
        for _ in 0..ATTEMPTS {
            let (live, head) = self.kube.quota(&self.namespace, &self.name).await?;
            let live = live.ok_or_else(|| Failure::not_found(&self.name))?;
            let (json, managing) = change(&live)?;
            let mut manifest = self.decode(&json)?;
            self.check_version(&live, &mut manifest, head)?;
            manifest.inherit(&live.manifest);
            let errors = validation::validate_update(&manifest, &live.manifest);
            if !errors.is_empty() {
                return Err(Failure::invalid(&self.name, &errors));
            }
            self.manage(&live, &mut manifest, managing)?;
            if self.dry_run {
                return Ok(live.with(manifest));
            }
            if manifest.metadata.deletion_timestamp.is_some()
                && manifest.metadata.finalizers.is_empty()
            {
                return self.end(live, manifest).await;
            }
            let uid =
                Uid::new(&live.manifest.metadata.uid).map_err(|error| Failure::internal(&error))?;
            match self
                .set(&manifest, uid, Precondition::Version(live.entry))
                .await?
            {
                Ok(object) => return Ok(object),
                // If the body names a version, it will turn out to be stale.
                Err(Refusal::Conflict { .. }) => {}
                Err(refused @ Refusal::LimitReached { .. }) => {
                    return Err(Failure::forbidden(refused.to_string()));
                }
                Err(refusal @ Refusal::Adopted { .. }) => {
                    return Err(Failure::conflict(&self.name, &refusal.to_string()));
                }
                Err(other) => return Err(Failure::internal(&other)),
            }
        }
        Err(Failure::modified(&self.name))
    }

    /// If the new object names a version, that must be current: nothing but figures has changed since.
    fn check_version(&self, live: &Object, manifest: &mut Manifest, head: Sequence) -> Result<()> {
        let (new, old) = (&mut manifest.metadata, &live.manifest.metadata);
        if !new.uid.is_empty() && new.uid != old.uid {
            let why = format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                new.uid, old.uid
            );
            return Err(Failure::conflict(&self.name, &why));
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
            return Err(Failure::unprocessable(super::KIND, &self.name, causes));
        };
        if version < live.entry || version > head {
            return Err(Failure::modified(&self.name));
        }
        new.resource_version.clone_from(&old.resource_version);
        Ok(())
    }

    fn manage(&self, live: &Object, manifest: &mut Manifest, managing: Managing) -> Result<()> {
        let known = &live.manifest.metadata.managed_fields;
        manifest.metadata.managed_fields = match managing {
            Managing::Apply(managed) => managed,
            Managing::Update => {
                let (old, new) = (as_json(&live.manifest)?, as_json(manifest)?);
                let given = std::mem::take(&mut manifest.metadata.managed_fields);
                fields::updated(Some((&old, known)), &new, &given, &self.manager, now())
            }
        };
        Ok(())
    }

    async fn set(
        &self,
        manifest: &Manifest,
        fresh_uid: Uid,
        precondition: Precondition,
    ) -> Result<std::result::Result<Object, Refusal>> {
        let change = QuotaChange {
            namespace: self.namespace.clone(),
            name: manifest.metadata.name.clone(),
            fresh_uid,
            spec: manifest.spec.clone(),
            metadata: stored_metadata(&manifest.metadata),
            precondition: Some(precondition),
        };
        let actor = self.actor.clone();
        let decided = self
            .kube
            .0
            .ledger
            .decide_for(&self.actor.principal, move |context| {
                let transaction = &mut context.transaction;
                context
                    .policy
                    .bounds
                    .check_quota(transaction.state(), &change)?;
                let events = set_quota(transaction.state(), transaction.now(), &change)?;
                let events = unless_adopted(transaction.state(), context.policy, events)?;
                let head = transaction.record(&actor, events);
                Ok((
                    transaction.state().quota(&change.namespace, &change.name),
                    head,
                ))
            });
        let (view, head) = match decided.await.map_err(Failure::from)? {
            Ok((Some(view), head)) => (view, head),
            Ok((None, _)) => return Err(Failure::internal(&"a quota that was set is not there")),
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.kube.0.changes.reach(head).await;
        Ok(Ok(self.kube.object(view, head)))
    }

    /// The last finalizer of a quota that is being deleted is gone.
    async fn end(&self, live: Object, manifest: Manifest) -> Result<Object> {
        let (actor, namespace, name) = (
            self.actor.clone(),
            self.namespace.clone(),
            self.name.clone(),
        );
        let precondition = Some(Precondition::Version(live.entry));
        let decided = self
            .kube
            .0
            .ledger
            .decide_for(&self.actor.principal, move |context| {
                let transaction = &mut context.transaction;
                let events = delete_quota(transaction.state(), &namespace, &name, precondition)?;
                let events = unless_adopted(transaction.state(), context.policy, events)?;
                transaction.record(&actor, events);
                Ok(())
            });
        match decided.await.map_err(Failure::from)? {
            Ok(()) => Ok(live.with(manifest)),
            Err(Refusal::Conflict { .. }) => Err(Failure::modified(&self.name)),
            Err(refusal @ Refusal::Adopted { .. }) => {
                Err(Failure::conflict(&self.name, &refusal.to_string()))
            }
            Err(Refusal::NotFound(_)) => Err(Failure::not_found(&self.name)),
            Err(other) => Err(Failure::internal(&other)),
        }
    }
}

/// The object that is compared and merged.
pub(super) fn as_json(manifest: &Manifest) -> Result<Value> {
    serde_json::to_value(manifest).map_err(|error| Failure::internal(&error))
}

/// A name that begins as given, and that nobody else is likely to have.
pub(super) fn generated(begin: &str) -> Name {
    let most = NAME_MAX_BYTES - GENERATED_LENGTH;
    let begin = begin.get(..begin.len().min(most)).unwrap_or_default();
    let random = Uuid::new_v4();
    let suffix = random.as_bytes().iter().take(GENERATED_LENGTH);
    let suffix: String = suffix
        .map(|byte| char::from(GENERATED[usize::from(*byte) % GENERATED.len()]))
        .collect();
    format!("{begin}{suffix}").into()
}
