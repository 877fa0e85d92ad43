//! Groups of histories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quota_core::decide::{self, GroupBounds, GroupChange, Sighting};
use quota_core::{
    event::{Event, GroupRecord},
    state::{GroupView, State},
};
use quota_semantics::{
    Name, Span, Timestamp,
    group::{Extensions, LabelSelector, Override, Selector, Spec},
    quantity::Quantity,
    resource::ResourceList,
    uid::Uid,
};

use crate::histories::things::{OBJECT_LABEL, seen, spec};

/// The desired state of a group in a step.
pub(crate) struct Wanted {
    pub(crate) group: u8,
    pub(crate) selector: u8,
    pub(crate) parent: Option<u8>,
    pub(crate) hard: u64,
    pub(crate) guaranteed: u64,
    pub(crate) scope: u8,
    pub(crate) limits: Option<(u64, i64)>,
    pub(crate) shown: Option<u64>,
}

pub(crate) fn group(number: u8) -> Name {
    Name::from(format!("group-{number}"))
}

fn cpu(amount: u64) -> ResourceList {
    let amount = Quantity::from_units(i64::try_from(amount).unwrap());
    [(Name::from("requests.cpu"), amount)].into_iter().collect()
}

fn selector(number: u8) -> Selector {
    let json = match number {
        0 => r#"{"labels":{"matchLabels":{"team":"t-0"}}}"#,
        1 => {
            r#"{"labels":{"matchExpressions":[{"key":"team","operator":"In","values":["t-1","t-2"]}]}}"#
        }
        2 => r#"{"labels":{"matchLabels":{"kubernetes.io/metadata.name":"team-0"}}}"#,
        3 => {
            r#"{"labels":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"Exists"}]}}"#
        }
        4 => r#"{"annotations":{"owner":"somebody"}}"#,
        _ => "{}",
    };
    serde_json::from_str(json).unwrap()
}

/// For some groups, a selector of objects by their own labels.
fn objects(wanted: &Wanted) -> Option<LabelSelector> {
    let json = match wanted.scope {
        1 => r#"{"matchLabels":{"app":"web"}}"#,
        2 => r#"{"matchExpressions":[{"key":"app","operator":"DoesNotExist"}]}"#,
        _ => return None,
    };
    serde_json::from_str(json).ok()
}

pub(crate) fn set(state: &State, now: Timestamp, wanted: &Wanted) -> Vec<Event> {
    let objects = objects(wanted);
    let keys = BTreeSet::from([Name::from(OBJECT_LABEL)]);
    if objects.is_some() && *state.object_labels() != keys {
        return decide::set_object_labels(state, &keys, None).unwrap();
    }
    let limits = wanted.limits.map(|(hard, seconds)| Override {
        hard: cpu(hard),
        until: now.plus(Span::from_seconds(seconds)),
    });
    let quota = spec(wanted.hard, wanted.scope.saturating_sub(2));
    let change = GroupChange {
        name: group(wanted.group),
        fresh_uid: Uid::from_uuid([100 + wanted.group; 16]),
        spec: Spec {
            selector: selector(wanted.selector),
            extensions: Extensions {
                parent: wanted.parent.map(group),
                guaranteed: match wanted.guaranteed.min(wanted.hard) {
                    0 => ResourceList::new(),
                    some => cpu(some),
                },
                r#override: limits,
                objects,
                ..Extensions::default()
            },
            quota,
        },
        metadata: Box::default(),
        precondition: None,
    };
    if let Some(version) = wanted.shown {
        return seen(
            state,
            &shown(Arc::new(GroupRecord {
                name: change.name,
                uid: Uid::from_uuid(
                    [100 + wanted.group + 10 * u8::try_from(version % 3).unwrap(); 16],
                ),
                created: Timestamp::EPOCH,
                spec: change.spec,
                metadata: format!("{{\"adoptedVersion\":{version}}}").into(),
            })),
        );
    }
    decide::set_group(state, now, &change, &GroupBounds::default()).unwrap_or_default()
}

pub(crate) fn shown(record: Arc<GroupRecord>) -> Sighting {
    Sighting::Group { record, max_depth: 4 }
}

/// Deletes a group; an adopted one is deleted by its source.
pub(crate) fn delete(state: &State, number: u8) -> Vec<Event> {
    let name = group(number);
    if let Some((record, _)) = state.adopted_group(&name) {
        let uid = record.uid.clone();
        return seen(state, &Sighting::GroupEnded { name, uid });
    }
    decide::delete_group(state, &group(number), None).unwrap_or_default()
}

/// The used and reserved amount of each group, and its limit.
pub fn held(state: &State) -> BTreeMap<Name, (Quantity, Quantity)> {
    let of = |view: GroupView| {
        let figure = view.figures.into_iter().next()?.figure;
        let mut held = figure.used.unwrap_or_default();
        held.add_assign(&figure.reserved);
        Some((view.record.name.clone(), (held, figure.hard)))
    };
    state.groups().filter_map(of).collect()
}
