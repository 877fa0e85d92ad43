//! Deletes quotas and groups: one object, or all that are selected.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use quota_core::{
    decide::{Precondition, Refusal},
    event::{Actor, Sequence},
    state,
};
use quota_semantics::{uid::Uid, yaml};
use serde::Deserialize;

use super::{
    Caller, Kube,
    accept::Shape,
    body::{Body, JSON, PROTOBUF, YAML},
    copied::{Copied, some_of},
    object::Object,
    page::Listing,
    params::Params,
    protobuf, read,
    resource::{Change, Key},
    scope::{Position, Scope},
    status::{Failure, Result},
    write_request::ATTEMPTS,
};
use crate::{
    auth::Reader,
    clock::now,
    fairness::{Permit, Turn},
    parse_errors::in_plain_words,
    writer::For,
};

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
