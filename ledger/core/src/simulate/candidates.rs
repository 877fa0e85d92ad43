//! The limits that a simulation puts in the place of recorded ones.

use std::{collections::BTreeSet, fmt};

use hashbrown::HashMap;

use crate::{
    decide::{self, Deciding, GroupBounds, GroupChange, QuotaChange, Refusal},
    event::{Actor, Entry, Event},
    state::State,
};
use quota_semantics::{Name, Timestamp, candidate::Candidate, uid::Uid};

/// A quota by its namespace and name, or a group by its name without a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The namespace of a quota; none: it is a group.
    pub namespace: Option<Name>,
    /// Its name.
    pub name: Name,
}

impl Subject {
    /// Whether a state has it.
    pub(super) fn is_in(&self, state: &State) -> bool {
        match &self.namespace {
            Some(namespace) => state.quota_record(namespace, &self.name).is_some(),
            None => state.group_record(&self.name).is_some(),
        }
    }

    /// The one that an event sets.
    pub(super) fn set_by(event: &Event) -> Option<Self> {
        match event {
            Event::QuotaSet(quota) => {
                Some(Self { namespace: Some(quota.namespace.clone()), name: quota.name.clone() })
            }
            Event::GroupSet(group) => Some(Self { namespace: None, name: group.name.clone() }),
            _ => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "quota {} of namespace {namespace}", self.name),
            None => write!(f, "group {}", self.name),
        }
    }
}

/// Limits that hold through the whole period, instead of the recorded ones of the same names.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// Quotas.
    pub quotas: Vec<QuotaChange>,
    /// Groups.
    pub groups: Vec<GroupChange>,
    /// Quotas and groups that are left out.
    pub deleted: Vec<Subject>,
}

impl Candidates {
    /// Adds one. Its uid, if no quota or group of its name is recorded, does not matter.
    pub fn add(&mut self, candidate: Candidate) {
        let fresh_uid = Uid::from_uuid([0; 16]);
        match candidate {
            Candidate::Quota { namespace, name, spec, metadata } => self.quotas.push(QuotaChange {
                namespace,
                name,
                fresh_uid,
                spec,
                metadata,
                precondition: None,
            }),
            Candidate::Group { name, spec } => self.groups.push(GroupChange {
                name,
                fresh_uid,
                spec,
                metadata: Box::default(),
                precondition: None,
            }),
        }
    }

    /// The names that have other limits.
    pub(super) fn changed(&self) -> Changed {
        let mut changed = Changed::default();
        let quotas = self.quotas.iter().map(|quota| Subject {
            namespace: Some(quota.namespace.clone()),
            name: quota.name.clone(),
        });
        let groups =
            self.groups.iter().map(|group| Subject { namespace: None, name: group.name.clone() });
        for Subject { namespace, name } in quotas.chain(groups).chain(self.deleted.iter().cloned())
        {
            match namespace {
                Some(namespace) => changed.quotas.entry(namespace).or_default().insert(name),
                None => changed.groups.insert(name),
            };
        }
        changed
    }

    /// Sets them in a state.
    pub(super) fn set(
        self,
        state: &mut State,
        time: Timestamp,
        bounds: &GroupBounds,
    ) -> Result<(), Vec<(usize, Refusal)>> {
        for Subject { namespace, name } in self.deleted {
            let event = match namespace {
                Some(namespace) => Event::QuotaDeleted { namespace, name },
                None => Event::GroupDeleted { name },
            };
            apply(state, time, event);
        }
        let mut failed = Vec::new();
        let first_group = self.quotas.len();
        for (number, quota) in self.quotas.into_iter().enumerate() {
            match decide::set_quota(state, time, &quota) {
                Ok(events) => apply_all(state, time, events),
                Err(refusal) => failed.push((number, refusal)),
            }
        }
        // A parent may come after its children: as long as one more can be set, the others are tried again.
        let mut waiting: Vec<_> = (first_group..).zip(self.groups).collect();
        loop {
            let before = waiting.len();
            let mut refused = Vec::new();
            waiting.retain(|(number, group)| match decide::set_group(state, time, group, bounds) {
                Ok(events) => {
                    apply_all(state, time, events);
                    false
                }
                Err(refusal) => {
                    refused.push((*number, refusal));
                    true
                }
            });
            if waiting.is_empty() || waiting.len() == before {
                failed.extend(refused);
                break;
            }
        }
        match failed.is_empty() {
            true => Ok(()),
            false => Err(failed),
        }
    }
}

fn apply_all(state: &mut State, time: Timestamp, events: Vec<Event>) {
    for event in events {
        apply(state, time, event);
    }
}

/// Applies an event that is no entry of the ledger.
pub(super) fn apply(state: &mut State, time: Timestamp, event: Event) {
    let entry =
        Entry { sequence: state.head().sequence, time, actor: Actor::named("simulation"), event };
    state.apply(&entry);
}

/// The names whose limits differ from the recorded ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Changed {
    /// Quotas by namespace.
    pub(super) quotas: HashMap<Name, BTreeSet<Name>>,
    /// Groups.
    pub(super) groups: BTreeSet<Name>,
}

impl Changed {
    pub(super) fn is_empty(&self) -> bool {
        self.quotas.is_empty() && self.groups.is_empty()
    }

    pub(super) fn has(&self, namespace: Option<&Name>, name: &Name) -> bool {
        match namespace {
            Some(namespace) => {
                let names = self.quotas.get(namespace);
                names.is_some_and(|names| names.contains(name))
            }
            None => self.groups.contains(name),
        }
    }

    /// Which limits decide about a request.
    pub(super) fn deciding(&self) -> Deciding {
        match self.groups.is_empty() {
            true => Deciding::Own,
            false => Deciding::All,
        }
    }

    /// Whether an entry counts in the other past: it changes no candidate, and concerns a namespace that is followed.
    pub(super) fn follows(&self, event: &Event) -> bool {
        let is_of_candidate = match event {
            Event::QuotaSet(quota) => self.has(Some(&quota.namespace), &quota.name),
            Event::QuotaDeleted { namespace, name } => self.has(Some(namespace), name),
            Event::GroupSet(group) => self.has(None, &group.name),
            Event::GroupDeleted { name } => self.has(None, name),
            Event::OverrideEnded { namespace, quota } => self.has(namespace.as_ref(), quota),
            _ => false,
        };
        if is_of_candidate {
            return false;
        }
        let is_of_all = !self.groups.is_empty() || matches!(event, Event::OverrideEnded { .. });
        let namespace = event.namespace().filter(|_| !is_of_all);
        namespace.is_none_or(|namespace| self.quotas.contains_key(namespace))
    }
}
