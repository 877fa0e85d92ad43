//! A requested write: checked against the current object, and decided.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode, request::Parts};
use quota_core::{
    decide::{Precondition, Refusal},
    event::{Actor, Sequence},
};
use quota_semantics::{Name, quota::validation, syntax, uid::Uid};
use serde_json::Value;
use uuid::Uuid;

use super::{
    Caller, Kube,
    accept::Shape,
    body::undecodable,
    fields,
    kind::Kind,
    object::Object,
    params::Params,
    read,
    resource::{Change, CopiedView, Key, Manifest},
    status::{Failure, Result},
};
use crate::{
    clock::now,
    fairness::{BYTES_PER_AMOUNT, Permit, Turn, make_sized},
    server::warn,
    writer::{For, Unavailable},
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

/// What is extracted of a request, in this order.
type Parameters = (State<Kube>, Key, Caller, Shape, Params);

/// A requested write.
pub(super) struct Request {
    pub(super) kube: Kube,
    /// The object; with an empty name, the body names it.
    pub(super) key: Key,
    pub(super) params: Params,
    pub(super) manager: String,
    actor: Arc<Actor>,
    shape: Shape,
    permit: Permit,
    dry_run: bool,
}

impl FromRequestParts<Kube> for Request {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Kube,
    ) -> std::result::Result<Self, Response> {
        let parameters = Parameters::from_request_parts(parts, state).await?;
        Self::new(parameters, &parts.headers).map_err(Failure::into_response)
    }
}

impl Request {
    fn new(
        (State(kube), key, Caller(actor), shape, params): Parameters,
        headers: &HeaderMap,
    ) -> Result<Self> {
        Ok(Self {
            kube,
            key,
            manager: params.manager(headers)?,
            dry_run: params.dry_run()?,
            params,
            shape,
            permit: Permit::to_change(&actor.principal),
            actor,
        })
    }

    /// The response with a written object, made in the turn of the principal if it shows many amounts.
    pub(super) async fn answer(
        &self,
        object: Object,
        status: StatusCode,
        mut warnings: Vec<String>,
    ) -> Result<Response> {
        warnings.extend(object.not_enforced());
        let mut response = read::answer(&self.permit, object, self.shape, &self.params).await?;
        *response.status_mut() = status;
        warn(response.headers_mut(), &warnings);
        Ok(response)
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
        warnings: &mut Vec<String>,
    ) -> Result<Object> {
        let kind = self.key.kind;
        let errors = manifest.validate_create();
        let name = manifest.metadata().name.clone();
        if !errors.is_empty() {
            return Err(Failure::invalid(kind, &name, &errors));
        }
        warnings.extend(manifest.warnings());
        self.manage(None, &mut manifest, managing)?;
        self.check_size(&manifest, None)?;
        let metadata = manifest.metadata_mut();
        let uid = Uuid::new_v4();
        (metadata.deletion_timestamp, metadata.deletion_grace_period_seconds) = (None, None);
        metadata.generation = 0;
        let fresh_uid = Uid::from_uuid(*uid.as_bytes());
        let change = manifest.to_change(fresh_uid, Precondition::Absent);
        match self.carry_out(change, &name).await? {
            Ok(_) if self.dry_run => {
                let metadata = manifest.metadata_mut();
                metadata.uid = uid.to_string();
                metadata.creation_timestamp = Some(now().whole_seconds());
                Ok(Object::unwritten(manifest, self.kube.0.ledger.enforcement()))
            }
            Ok((copied, head)) => self.written(copied, head).await,
            Err(Refusal::Conflict { .. }) => Err(Failure::already_exists(kind, &name)),
            Err(other) => Err(Failure::refused(kind, &name, &other)),
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
            let metadata = manifest.metadata();
            // The last finalizer of a deleted object is gone.
            let ends = metadata.deletion_timestamp.is_some() && metadata.finalizers.is_empty();
            let command = match ends {
                true => Change::Deletion(self.key.clone(), precondition),
                false => {
                    let uid = Uid::new(live.uid()).map_err(|error| Failure::internal(&error))?;
                    manifest.to_change(uid, precondition)
                }
            };
            match self.carry_out(command, name).await? {
                Ok(_) if self.dry_run || ends => return Ok(live.with(manifest)),
                Ok((copied, head)) => return self.written(copied, head).await,
                // If the body names a version, the next attempt finds it stale.
                Err(Refusal::Conflict { .. }) => {}
                Err(other) => return Err(Failure::refused(*kind, name, &other)),
            }
        }
        Err(Failure::modified(*kind, name))
    }

    /// Whether the object comes from a source.
    async fn belongs_to_source(&self) -> Result<bool> {
        let key = self.key.clone();
        let ledger = &self.kube.0.ledger;
        let decided = ledger.decide_for(For::Principal(&self.actor.principal), move |context| {
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
            let why =
                format!("Invalid value: {:?}: a resourceVersion is a number", new.resource_version);
            return Err(Failure::wrong_field(
                &kind.qualified_name(),
                name,
                "FieldValueInvalid",
                "metadata.resourceVersion",
                why,
            ));
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

    /// Carries out a change of the object of this name, unless the request is a dry run. Returns the object that is
    /// there then (none for a dry run and after a deletion), and the head.
    async fn carry_out(
        &self,
        change: Change,
        name: &Name,
    ) -> Result<std::result::Result<(Option<CopiedView>, Sequence), Refusal>> {
        let key = Key { name: name.clone(), ..self.key.clone() };
        let (actor, dry_run) = (self.actor.clone(), self.dry_run);
        let ledger = &self.kube.0.ledger;
        let decided = ledger.decide_for(For::Principal(&self.actor.principal), move |context| {
            change.carry_out(context, &key, &actor, dry_run)
        });
        let decided = decided.await.map_err(Failure::from)?;
        if let Ok((_, head)) = &decided {
            self.kube.0.changes.reach(*head).await;
        }
        Ok(decided)
    }

    /// The object that was written.
    async fn written(&self, copied: Option<CopiedView>, head: Sequence) -> Result<Object> {
        let missing = || Failure::internal(&"an object that was set is not there");
        let copied = copied.ok_or_else(missing)?;
        Ok(self.kube.made(&self.permit, copied, head).await)
    }
}

/// A name with this prefix and a random suffix.
pub(super) fn generated(begin: &str) -> Name {
    let most = syntax::MAX_SUBDOMAIN - GENERATED_LENGTH;
    let begin = begin.get(..begin.len().min(most)).unwrap_or_default();
    let random = Uuid::new_v4();
    let suffix = random.as_bytes().iter().take(GENERATED_LENGTH);
    let suffix: String =
        suffix.map(|byte| char::from(GENERATED[usize::from(*byte) % GENERATED.len()])).collect();
    format!("{begin}{suffix}").into()
}
