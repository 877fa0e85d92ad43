//! Creates, replaces, patches and deletes quotas and groups.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode, request::Parts};
use quota_core::{
    decide::{Precondition, Refusal},
    event::{Actor, Sequence},
    state,
};
use quota_semantics::{Name, quota::validation, syntax, uid::Uid, yaml};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    Caller, Failure, Kube, Result, fields,
    object::{Object, Shape},
    patch::{self, Patch},
    protobuf,
    read::{self, Copied, Listing, Position, Scope, some_of},
    request::{
        Body, FieldValidation, JSON, PATCH_OPTIONS, PROTOBUF, Params, Sent, YAML, undecodable,
    },
    resource::{Change, CopiedView, Key, Kind, Manifest},
};
use crate::{
    auth::Reader,
    fairness::{BYTES_PER_AMOUNT, Permit, Turn, make_sized},
    now,
    problem::in_plain_words,
    server::warn,
    writer::{For, Unavailable},
};

pub(super) async fn create(request: Request, body: Body) -> Result<Response> {
    let (json, mut warnings) = object(&request, body).await?;
    let mut manifest = request.decode(&json)?;
    let metadata = manifest.metadata_mut();
    if !metadata.resource_version.is_empty() {
        return Err(Failure::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    if metadata.name.is_empty() && !metadata.generate_name.is_empty() {
        metadata.name = generated(&metadata.generate_name);
    }
    let object = request.create(manifest, Managing::Update, &mut warnings).await?;
    request.answer(object, StatusCode::CREATED, warnings).await
}

pub(super) async fn replace(request: Request, body: Body) -> Result<Response> {
    let (json, warnings) = object(&request, body).await?;
    if name_of(&json).is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            request.key.name
        )));
    }
    let object = request.update(|_| Ok((json.clone(), Managing::Update))).await?;
    request.answer(object, StatusCode::OK, warnings).await
}

pub(super) async fn patch(request: Request, body: Body) -> Result<Response> {
    let Key { kind, name, .. } = &request.key;
    let validation = request.params.field_validation()?;
    let mut odd = Vec::new();
    let patch = request.read(body.bytes.len(), move || Patch::read(&body));
    let patch = patch.await?;
    // Only operations of a JSON patch can depend on the status, which is large, and which no patch changes.
    let sees_status = matches!(patch, Patch::Json(_));
    let patched: Box<dyn Fn(Value) -> Result<Value> + Send + Sync> = match patch {
        Patch::Apply(config) => return apply(&request, config, validation).await,
        _ if request.params.force => {
            return Err(Failure::bad_request("force is for apply patches only"));
        }
        Patch::Merge(patch) => {
            odd = patch.odd;
            Box::new(move |object| Ok(patch::merge(object, &patch.json)))
        }
        Patch::Strategic(patch) => {
            odd = patch.odd;
            Box::new(move |object| patch::strategic(object, &patch.json))
        }
        Patch::Json(operations) => Box::new(move |object| patch::json(object, &operations)),
    };
    let warnings = parking_lot::Mutex::new(Vec::new());
    let change = |live: &Object| {
        let live = match sees_status {
            true => live.to_json()?,
            false => live.manifest.to_json()?,
        };
        let patched = Sent { json: patched(live)?, odd: odd.clone() };
        let (json, odd) = patched.check(*kind, validation)?;
        if name_of(&json).is_empty() {
            let why = "Required value: name or generateName is required".to_owned();
            return Err(Failure::wrong_field(
                &kind.qualified_name(),
                name,
                "FieldValueRequired",
                "metadata.name",
                why,
            ));
        }
        *warnings.lock() = odd;
        Ok((json, Managing::Update))
    };
    let object = request.update(change).await?;
    let warnings = warnings.into_inner();
    request.answer(object, StatusCode::OK, warnings).await
}

/// The object in a body, checked, and warnings about its fields.
async fn object(request: &Request, body: Body) -> Result<(Value, Vec<String>)> {
    let validation = request.params.field_validation()?;
    let (kind, bytes) = (request.key.kind, body.bytes.len());
    let read = move || Sent::object(kind, &body)?.check(kind, validation);
    request.read(bytes, read).await
}

/// The name in an object: an update without it is not about the object, whatever the path says.
fn name_of(json: &Value) -> &str {
    json["metadata"]["name"].as_str().unwrap_or_default()
}

async fn apply(request: &Request, config: Sent, validation: FieldValidation) -> Result<Response> {
    let params = &request.params;
    if !params.has_manager() {
        let why = "Required value: is required for apply patch".to_owned();
        let (reason, field) = ("FieldValueRequired", "fieldManager");
        return Err(Failure::wrong_field(PATCH_OPTIONS, "", reason, field, why));
    }
    let kind = request.key.kind;
    config.check_typed(kind)?;
    let (config, mut warnings) = config.check(kind, validation)?;
    let sent = request.decode(&config)?;
    let metadata = sent.metadata();
    if !metadata.managed_fields.is_empty() {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    // The configuration is spelled as stored objects are: a number of pods equals its text, and is no difference.
    let config = sent.to_json()?;
    for _ in 0..ATTEMPTS {
        let exists = |state: &state::State| request.key.is_in(state);
        let (exists, _) = request.kube.read(exists).await?;
        if exists {
            let change = |live: &Object| {
                let managed = &live.manifest.metadata().managed_fields;
                let applied = fields::apply(
                    &live.manifest.to_json()?,
                    managed,
                    &config,
                    &request.manager,
                    params.force,
                    now(),
                )?;
                Ok((applied.object, Managing::Apply(applied.managed)))
            };
            match request.update(change).await {
                Err(failure) if failure.is_not_found() => continue,
                object => return request.answer(object?, StatusCode::OK, warnings).await,
            }
        }
        if !metadata.uid.is_empty() || !metadata.resource_version.is_empty() {
            let why = "the provided object specified uid or resourceVersion, and no existing object was found";
            return Err(Failure::conflict(kind, &request.key.name, why));
        }
        let applied =
            fields::apply(&json!({}), &[], &config, &request.manager, params.force, now())?;
        let manifest = request.decode(&applied.object)?;
        let managing = Managing::Apply(applied.managed);
        match request.create(manifest, managing, &mut warnings).await {
            Err(failure) if failure.is_already_exists() => {}
            object => return request.answer(object?, StatusCode::CREATED, warnings).await,
        }
    }
    Err(Failure::modified(kind, &request.key.name))
}

// A requested write: checked against the current object, and decided.

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

// Deletes quotas and groups: one object, or all that are selected.

pub(super) async fn delete(
    State(kube): State<Kube>,
    key: Key,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
    body: Body,
) -> Result<Response> {
    let removal = Removal::new(kube, actor, &params, &body)?;
    let object = removal.remove(&key).await?;
    read::answer(&removal.permit, object, shape, &params).await
}

pub(super) async fn delete_collection(
    State(kube): State<Kube>,
    path: Key,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
    body: Body,
) -> Result<Response> {
    let removal = Removal::new(kube.clone(), actor, &params, &body)?;
    let scope = Arc::new(Scope::new(&path, &params, Reader::default())?);
    let mut listing = Listing::new(path.kind, shape, &params)?;
    let (mut after, mut version) = (Some(Position::default()), None);
    let mut is_part_made = false;
    while let Some(position) = after {
        let some = |state: &state::State| some_of(state, &scope, &position, kube.chunk());
        let ((copied, next), head) = kube.read(some).await?;
        let keys = removal.keys(&scope, copied.within(&scope), head).await;
        for key in keys {
            let removed = removal.remove_if_there(&key).await;
            let removed = removed.map_err(|failure| failure.with_part_made(is_part_made))?;
            if let Some(object) = removed {
                is_part_made |= !removal.dry_run;
                listing = listing.with(&removal.permit, object).await?;
            }
        }
        version.get_or_insert(head);
        after = next;
        tokio::task::yield_now().await;
    }
    let version = version.unwrap_or_default();
    listing.answer(&removal.permit, version).await
}

/// The options of a deletion that count here; the others are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeleteOptions {
    pub(super) dry_run: Option<Vec<String>>,
    pub(super) preconditions: Option<Preconditions>,
}

/// What the deleted object has to be.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preconditions {
    pub(super) resource_version: Option<String>,
    pub(super) uid: Option<String>,
}

/// A requested deletion.
struct Removal {
    kube: Kube,
    permit: Permit,
    actor: Arc<Actor>,
    dry_run: bool,
    uid: Option<String>,
    version: Option<Sequence>,
}

impl Removal {
    fn new(kube: Kube, actor: Arc<Actor>, params: &Params, body: &Body) -> Result<Self> {
        let options = options(body)?;
        let dry_run = match options.dry_run.as_deref().unwrap_or_default() {
            [] => params.dry_run()?,
            [all] if all == "All" => true,
            other => {
                return Err(Failure::bad_request(format!(
                    "dryRun: {other:?} is not supported: only \"All\" is"
                )));
            }
        };
        let preconditions = options.preconditions.unwrap_or_default();
        let version = preconditions.resource_version.map(|version| version.parse());
        let version = version
            .transpose()
            .map_err(|_| Failure::bad_request("a resourceVersion is a number"))?;
        Ok(Self {
            kube,
            permit: Permit::to_change(&actor.principal),
            actor,
            dry_run,
            uid: preconditions.uid,
            version,
        })
    }

    /// The keys of the objects of a scope among those copied from a state at `head`.
    async fn keys(&self, scope: &Arc<Scope>, copied: Copied, head: Sequence) -> Vec<Key> {
        let (objects, amounts) = copied.size(false);
        let amounts = amounts + objects * scope.labels.weight();
        let (kube, scope) = (self.kube.clone(), scope.clone());
        let select = move |turn: &Turn| {
            let views = copied.views(false, turn).inspect(|_| turn.pause());
            let objects = views.map(|view| kube.object(view, head));
            let selected = objects.filter(|object| scope.labels.matches(object.labels()));
            selected.map(|object| object.key()).collect()
        };
        self.permit.make(amounts, select).await
    }

    /// Removes an object; none if it is not there any more.
    async fn remove_if_there(&self, key: &Key) -> Result<Option<Object>> {
        match self.remove(key).await {
            Ok(object) => Ok(Some(object)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn remove(&self, key: &Key) -> Result<Object> {
        let Key { kind, name, .. } = key;
        for _ in 0..ATTEMPTS {
            let (live, head) = self.kube.find(&self.permit, key).await?;
            let mut live = live.ok_or_else(|| Failure::not_found(*kind, name))?;
            self.check(&live, head)?;
            let metadata = live.manifest.metadata_mut();
            let waits = !metadata.finalizers.is_empty();
            if waits && metadata.deletion_timestamp.is_some() {
                return Ok(live);
            }
            if waits {
                metadata.deletion_timestamp = Some(now().whole_seconds());
                metadata.deletion_grace_period_seconds = Some(0);
            }
            let precondition = Precondition::Version(live.entry);
            let change = match waits {
                true => {
                    let uid = Uid::new(live.uid()).map_err(|error| Failure::internal(&error))?;
                    live.manifest.to_change(uid, precondition)
                }
                false => Change::Deletion(live.key(), precondition),
            };
            let (key, actor, dry_run) = (key.clone(), self.actor.clone(), self.dry_run);
            let ledger = &self.kube.0.ledger;
            let decided = ledger.decide_for(For::Always(&self.actor.principal), move |context| {
                change.carry_out(context, &key, &actor, dry_run)
            });
            match decided.await.map_err(Failure::from)? {
                Ok((_, head)) => {
                    self.kube.0.changes.reach(head).await;
                    return Ok(live);
                }
                Err(Refusal::Conflict { .. }) => {}
                Err(refusal) => return Err(Failure::refused(*kind, name, &refusal)),
            }
        }
        Err(Failure::modified(*kind, name))
    }

    fn check(&self, live: &Object, head: Sequence) -> Result<()> {
        let (kind, metadata) = (live.manifest.kind(), live.manifest.metadata());
        if let Some(uid) = self.uid.as_ref().filter(|uid| **uid != metadata.uid) {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                metadata.uid
            );
            return Err(Failure::conflict(kind, &metadata.name, &why));
        }
        if let Some(version) =
            self.version.filter(|version| *version < live.entry || *version > head)
        {
            let current = &metadata.resource_version;
            let why = format!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {current}"
            );
            return Err(Failure::conflict(kind, &metadata.name, &why));
        }
        Ok(())
    }
}

/// The options of a deletion; the body may be empty.
fn options(body: &Body) -> Result<DeleteOptions> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::bad_request(format!(
            "DeleteOptions in version \"v1\" cannot be handled: {}",
            in_plain_words(error)
        ))
    };
    if body.bytes.trim_ascii().is_empty() {
        return Ok(DeleteOptions::default());
    }
    match body.media_type.as_str() {
        JSON => serde_json::from_slice::<Option<_>>(&body.bytes)
            .map(Option::unwrap_or_default)
            .map_err(|error| wrong(&error)),
        YAML => yaml::read(&body.bytes).map_err(|error| wrong(&error)),
        PROTOBUF => protobuf::delete_options(&body.bytes).map_err(|error| wrong(&error)),
        _ => Err(Failure::unsupported_media_type(&[JSON, YAML, PROTOBUF].join(", "))),
    }
}
