//! Steps of relists and corrections.

use quota_core::{
    decide::{self, ComparedRecord, Finish, Repair, Repaired, Sighting},
    event::{Event, RelistBegin, RelistScope},
    state::State,
};
use quota_semantics::{Name, Timestamp};

use crate::histories::groups;
use crate::histories::things::{footprint, namespace, namespace_record, observed, uid};

/// The source of the relists: the actor of all steps.
pub(crate) const SOURCE: &str = "test";

/// A step of a relist, or a correction.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are numbers of what their names say")]
pub enum Listing {
    /// A relist begins, of all namespaces or of one.
    Begin { kind: u8, namespace: Option<u8> },
    /// An object is listed.
    List { uid: u8 },
    /// A namespace is listed.
    ListNamespace { namespace: u8, uid: u8 },
    /// A group is listed, as it is recorded.
    ListGroup { group: u8 },
    /// The list is complete.
    Finish { kind: u8, namespace: Option<u8>, allow_empty: bool, bookmark: bool, version: u64 },
    /// Ends the objects that the closed relist has not listed, from a place on.
    Sweep { from: u32, most: u32 },
    /// The closed relist is over.
    Over,
    /// Messages of the source are missing.
    Gap,
    /// The record of an object is corrected, or ended (`gone`), as it is recorded (`seen`) or as if there were none.
    Repair { uid: u8, amount: u64, version: u64, gone: bool, seen: bool },
}

fn scope(kind: u8, space: Option<u8>) -> RelistScope {
    RelistScope {
        resource: Name::from(match kind {
            0 => "pods",
            1 => "deployments.apps",
            2 => "namespaces",
            _ => "clusterresourcequotas.quota.openshift.io",
        }),
        namespace: space.map(namespace),
        source: Name::from(SOURCE),
    }
}

pub(crate) fn events(state: &State, now: Timestamp, listing: &Listing) -> Vec<Event> {
    match *listing {
        Listing::Begin { kind, namespace } => {
            let begin = RelistBegin { scope: scope(kind, namespace), id: None, allow_empty: false };
            decide::begin_relist(state, begin, false)
        }
        Listing::List { uid: number } => {
            let object =
                observed(number, 0, "pods", String::new(), 0, footprint(0, false, false), None);
            let sighting = Sighting::Alive { object: Box::new(object), quota: None };
            listed(state, &sighting)
        }
        Listing::ListNamespace { namespace, uid: number } => {
            listed(state, &Sighting::Namespace(namespace_record(namespace, number, 0, number)))
        }
        Listing::ListGroup { group } => {
            let recorded = state.group_record(&groups::group(group));
            let sighting = recorded.map(|(record, _)| groups::shown(record.clone()));
            sighting.map_or_else(Vec::new, |sighting| listed(state, &sighting))
        }
        Listing::Finish { kind, namespace, allow_empty, bookmark, version } => {
            let scope = scope(kind, namespace);
            let finish = Finish {
                resource: scope.resource,
                namespace: scope.namespace,
                id: None,
                allow_empty,
                version,
                is_bookmark: bookmark,
            };
            decide::close_relist(state, &scope.source, &finish)
        }
        Listing::Sweep { from, most } => {
            let Some(relist) = state.closed_relist() else {
                return Vec::new();
            };
            let (uids, _) = state.unlisted(&relist.scope, from, most);
            decide::end_unlisted(state, &relist.scope, relist.began, &uids)
        }
        Listing::Over => {
            let relist = state.closed_relist();
            let over =
                relist.and_then(|relist| decide::end_relist(state, &relist.scope, relist.began));
            over.into_iter().collect()
        }
        Listing::Gap => vec![decide::gap(&Name::from("OBJECTS"), 1, 2)],
        Listing::Repair { uid: number, amount, version, gone, seen } => {
            let recorded = state.object(&namespace(number % 2), &uid(number)).filter(|_| seen);
            let seen = recorded.as_ref().map(ComparedRecord::from);
            let repair = match (gone, seen) {
                (true, Some(seen)) => {
                    Repair::End { namespace: Some(namespace(number % 2)), uid: uid(number), seen }
                }
                (true, None) => return Vec::new(),
                (false, seen) => Repair::Set {
                    object: Box::new(observed(
                        number,
                        number % 2,
                        "pods",
                        format!("name-{number}"),
                        version,
                        footprint(amount, true, false),
                        None,
                    )),
                    quota: None,
                    seen,
                    quota_seen: None,
                },
            };
            match decide::repair(state, &repair, now) {
                Repaired::Done(events) => events,
                Repaired::Right | Repaired::Changed => Vec::new(),
            }
        }
    }
}

fn listed(state: &State, sighting: &Sighting) -> Vec<Event> {
    let source = Name::from(SOURCE);
    let listed = decide::listed(state, &source, sighting).cloned();
    let event = |uid| Event::ObjectsListed { source, uids: vec![uid] };
    listed.map(event).into_iter().collect()
}
