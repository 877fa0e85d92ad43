//! Deletes quotas and groups: one object, or all that are selected.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions;
use quota_core::{
    decide::{Policy, Precondition, Refusal},
    event::{Actor, Event, Sequence},
    state::State as Ledger,
};
use quota_semantics::{Timestamp, embedded::refuse_embedded, uid::Uid};

use super::{
    Caller, Kube,
    accept::Shape,
    body::{Body, JSON, PROTOBUF, YAML},
    object::Object,
    page::{Listing, PageBuilder},
    params::Params,
    protobuf, read,
    request::ATTEMPTS,
    resource::{Change, Key, ObjectPath},
    scope::{Position, Scope},
    status::{Failure, Result},
};
use crate::{
    clock::now,
    large::{Permit, Turn},
    yaml,
};

pub(super) async fn delete(
    State(kube): State<Kube>,
    path: ObjectPath,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
    body: Body,
) -> Result<Response> {
    let removal = Removal::new(kube, actor, &params, &body)?;
    let object = removal.remove(&path.key()).await?;
    read::answer(&removal.permit, object, shape, &params).await
}

pub(super) async fn delete_collection(
    State(kube): State<Kube>,
    path: ObjectPath,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
    body: Body,
) -> Result<Response> {
    let removal = Removal::new(kube.clone(), actor, &params, &body)?;
    let scope = Arc::new(Scope::new(&path, &params)?);
    let mut listing = Listing::new(path.kind, shape, &params)?;
    let (mut after, mut version) = (Some(Position::default()), None);
    let mut is_part_made = false;
    while let Some(position) = after {
        let page = kube.page(
            &removal.permit,
            &scope,
            position,
            kube.chunk(),
            |_| Ok(()),
            Keys(Vec::new()),
        );
        let (keys, head, next) = page.await?;
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
    }
    let version = version.unwrap_or_default();
    listing.answer(&removal.permit, version).await
}

/// The keys of the objects of a page.
struct Keys(Vec<Key>);

impl PageBuilder for Keys {
    type Output = (Vec<Key>, Sequence, Option<Position>);

    fn add(&mut self, object: &Object, _: &Turn) -> Result<()> {
        self.0.push(object.key());
        Ok(())
    }

    fn end(self, version: Sequence, next: Option<Position>, _: &Turn) -> Result<Self::Output> {
        Ok((self.0, version, next))
    }
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
        let version = preconditions
            .resource_version
            .map(|version| version.parse());
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
            let dry_run = self.dry_run;
            let decision = Decision::new(&live, waits)?;
            let actor = self.actor.clone();
            let decided = self
                .kube
                .0
                .ledger
                .decide_always(&self.actor.principal, move |context| {
                    let transaction = &mut context.transaction;
                    let (state, now) = (transaction.state(), transaction.now());
                    let events = decision.decide(state, now, context.policy)?;
                    let recorded = if dry_run { Vec::new() } else { events };
                    Ok(transaction.record(&actor, recorded))
                });
            match decided.await.map_err(Failure::from)? {
                Ok(head) => {
                    self.kube.0.changes.reach(head).await;
                    return Ok(live);
                }
                Err(Refusal::Conflict { .. }) => {}
                Err(Refusal::NotFound(_)) => return Err(Failure::not_found(*kind, name)),
                Err(refusal @ Refusal::Adopted { .. }) => {
                    return Err(Failure::conflict(*kind, name, &refusal.to_string()));
                }
                Err(other) => return Err(Failure::internal(&other)),
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
        if let Some(version) = self
            .version
            .filter(|version| *version < live.entry || *version > head)
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

/// An immediate deletion, or a deletion mark on an object that waits for its finalizers.
struct Decision {
    key: Key,
    precondition: Precondition,
    mark: Option<Change>,
}

impl Decision {
    fn new(live: &Object, waits: bool) -> Result<Self> {
        let precondition = Precondition::Version(live.entry);
        let mark = match waits {
            false => None,
            true => {
                let uid = Uid::new(live.uid()).map_err(|error| Failure::internal(&error))?;
                Some(live.manifest.to_change(uid, precondition))
            }
        };
        Ok(Self {
            key: live.key(),
            precondition,
            mark,
        })
    }

    fn decide(
        &self,
        state: &Ledger,
        now: Timestamp,
        policy: &Policy,
    ) -> std::result::Result<Vec<Event>, Refusal> {
        match &self.mark {
            Some(change) => change.decide(state, now, policy),
            None => self.key.delete(state, policy, self.precondition),
        }
    }
}

/// The options of a deletion; the body may be empty.
fn options(body: &Body) -> Result<DeleteOptions> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::bad_request(format!(
            "DeleteOptions in version \"v1\" cannot be handled: {error}"
        ))
    };
    if body.bytes.trim_ascii().is_empty() {
        return Ok(DeleteOptions::default());
    }
    match body.media_type.as_str() {
        JSON => {
            let fields: Option<serde_json::Map<_, _>> = refuse_embedded(&body.bytes)
                .and_then(|()| serde_json::from_slice(&body.bytes))
                .map_err(|error| wrong(&error))?;
            let mut fields = fields.unwrap_or_default();
            // The body may leave out its type.
            fields.insert("apiVersion".to_owned(), "v1".into());
            fields.insert("kind".to_owned(), "DeleteOptions".into());
            serde_json::from_value(fields.into()).map_err(|error| wrong(&error))
        }
        YAML => yaml::read(&body.bytes).map_err(|error| wrong(&error)),
        PROTOBUF => protobuf::delete_options(&body.bytes).map_err(|error| wrong(&error)),
        _ => Err(Failure::unsupported_media_type(
            &[JSON, YAML, PROTOBUF].join(", "),
        )),
    }
}
