//! A group in the format of `/v1` and as a manifest, and its metadata for storage.

use quota_client::wire;
use quota_core::{
    event::{GroupRecord, Sequence},
    state::{self, CopiedGroup, Figure, GroupFigure, GroupView, Head, MemberView, MembersView},
};
use quota_semantics::{
    Name,
    group::{
        Manifest, Selector, Spec,
        extension::PREFIX,
        manifest::{API_VERSION, KIND},
        selector::NAME_LABEL,
    },
    quantity::Quantity,
    quota::manifest::{LAST_APPLIED, Metadata},
    resource::ResourceList,
};

use super::quota::{self, numbers};
use crate::{auth::Reader, enforcement::Enforcement, fairness::BYTES_PER_AMOUNT};

/// Most members that one answer lists.
pub(crate) const MEMBERS_MAX: usize = 1000;

/// A group and its first members as of one moment. Taking it copies pointers; the numbers are computed while the state
/// goes on.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    /// The group.
    pub group: CopiedGroup,
    members: MembersView,
    contender: Option<(Name, Name)>,
}

impl Copied {
    /// Looks up a group of this state by its name.
    pub(crate) fn of(state: &state::State, name: &str) -> Option<Self> {
        Self::with(state, state.copied_group(name)?)
    }

    /// A group of this state with its members.
    pub(crate) fn with(state: &state::State, group: CopiedGroup) -> Option<Self> {
        let name = &group.record.name;
        let (members, _) = state.group_members(name, "", MEMBERS_MAX)?;
        let contender = state.contender(name);
        Some(Self {
            contender: contender.map(|(group, namespace)| (group.clone(), namespace.clone())),
            group,
            members,
        })
    }

    /// A group of this state for a caller: only the members that the caller may read are shown and counted, and no other
    /// group is named. None if there is no such member.
    pub(crate) fn for_reader(
        state: &state::State,
        mut group: CopiedGroup,
        reader: &Reader,
    ) -> Option<Self> {
        if reader.reads_all() {
            return Self::with(state, group);
        }
        let reads = |namespace: &Name| reader.reads(namespace);
        let names = state.wanted_members(&group.record.name, reads, MEMBERS_MAX)?;
        if names.is_empty() {
            return None;
        }
        group.children.clear();
        Self::of_members(state, group, &names)
    }

    /// A group of this state as if only those of these namespaces that are members were its members. Without a
    /// contender: its namespace would be named, too.
    pub(crate) fn of_members(
        state: &state::State,
        mut group: CopiedGroup,
        names: &[Name],
    ) -> Option<Self> {
        let members = state.members_view(&group.record.name, names)?;
        group.members = members.len();
        Some(Self { group, members, contender: None })
    }

    /// The number of groups and namespaces that were looked up.
    pub(crate) const fn places(&self) -> usize {
        1 + self.group.children.len() + self.members.len()
    }

    /// How many amounts an answer with it shows; its metadata and selectors are shown, too.
    pub(crate) fn amounts(&self) -> usize {
        amounts_of(&self.group) + self.group.limits() * self.members.len()
    }

    /// The group with its numbers, without its members.
    pub(crate) fn without_members(self) -> GroupWithMembers {
        GroupWithMembers { view: self.group.view(), members: Vec::new(), contender: None }
    }

    /// The group with its numbers. `pause` is called after each member.
    pub(crate) fn seen(self, pause: impl Fn()) -> GroupWithMembers {
        GroupWithMembers {
            view: self.group.view(),
            members: self.members.views().inspect(|_| pause()).collect(),
            contender: self.contender,
        }
    }
}

/// Removes from a selector the names of namespaces that the caller may not read.
pub(crate) fn hide_names(selector: &mut Selector, reads: impl Fn(&str) -> bool) {
    let Some(labels) = &mut selector.labels else {
        return;
    };
    let is_name = |key: &Name| **key == *NAME_LABEL;
    labels.match_labels.retain(|key, value| !is_name(key) || reads(value));
    let of_names = labels.match_expressions.iter_mut();
    for requirement in of_names.filter(|requirement| is_name(&requirement.key)) {
        let values = requirement.values.iter();
        requirement.values = values.filter(|name| reads(name)).cloned().collect();
    }
}

/// A group as a caller may see it: without the names of other namespaces.
pub(crate) fn hide_others(group: &mut wire::Group, reader: &Reader) {
    if !reader.reads_all() {
        group.annotations.remove(LAST_APPLIED);
        hide_names(&mut group.selector, |namespace| reader.reads(namespace));
    }
}

/// How many amounts an answer with a group shows, without its members; its metadata and selectors are shown, too.
pub(crate) fn amounts_of(group: &CopiedGroup) -> usize {
    1 + group.limits() + group.children.len() + group.bytes / BYTES_PER_AMOUNT
}

/// A group with its numbers and its first members.
#[derive(Clone, Debug)]
pub(crate) struct GroupWithMembers {
    /// The group.
    pub view: GroupView,
    /// Its members by name; at most [`MEMBERS_MAX`].
    pub members: Vec<MemberView>,
    /// Another group that is guaranteed the same resource, and a namespace of both.
    pub contender: Option<(Name, Name)>,
}

impl GroupWithMembers {
    /// How many amounts an answer with it shows; its metadata and selectors are shown, too.
    pub(crate) fn amounts(&self) -> usize {
        let GroupView { figures, children, bytes, .. } = &self.view;
        figures.len() * (1 + self.members.len()) + children.len() + bytes / BYTES_PER_AMOUNT
    }

    /// The number of members that are not listed.
    pub(crate) fn omitted(&self) -> usize {
        self.view.members.saturating_sub(self.members.len())
    }
}

/// A group in the format of `/v1`; without its members if they are not given.
pub(crate) fn to_wire(
    view: &GroupView,
    members: Option<&GroupWithMembers>,
    enforcement: &Enforcement,
) -> wire::Group {
    let record = &*view.record;
    let spec = &record.spec;
    let mut metadata = metadata(record, view.entry);
    metadata.annotations.retain(|key, _| !key.starts_with(PREFIX));
    let extensions = spec.extensions.clone();
    wire::Group {
        name: record.name.clone(),
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        created_time: Some(record.created),
        labels: metadata.labels,
        annotations: metadata.annotations,
        selector: spec.selector.clone(),
        hard: spec.quota.hard.clone(),
        scopes: spec.quota.scopes.clone(),
        scope_selector: spec.quota.selector.clone(),
        parent: extensions.parent,
        guaranteed: extensions.guaranteed,
        objects: extensions.objects,
        each: extensions.each,
        soft: extensions.soft,
        enforcement: extensions.enforcement,
        r#override: extensions.r#override,
        status: wire::GroupStatus {
            hard: view.hard.clone(),
            used: numbers(figures(view), |figure| figure.used.clone()),
            reserved: numbers(figures(view), |figure| Some(figure.reserved.clone())),
            guaranteed_to_others: guaranteed_to_others(view),
            override_until: view.override_until,
            children: view.children.clone(),
            members: view.members,
            namespaces: members.map(|seen| seen.members.iter().map(member).collect()),
            namespaces_omitted: members.map_or(0, GroupWithMembers::omitted),
            conditions: conditions(view, members, enforcement),
        },
        as_of: None,
        lagging: false,
    }
}

/// A group's usage as a response body.
pub(crate) fn usage(seen: &GroupWithMembers, head: Head, lagging: bool) -> wire::GroupUsage {
    let left = |figure: &Figure| {
        let mut left = figure.hard.clone();
        left.sub_assign(figure.used.as_ref().unwrap_or(&Quantity::ZERO));
        left.sub_assign(&figure.reserved);
        left
    };
    let is_each = seen.view.record.spec.extensions.each;
    let resource = |(place, limit): (usize, &GroupFigure)| {
        let GroupFigure { figure, guaranteed_to_others } = limit;
        let available = match is_each {
            // The limits of members are those of the group.
            true => {
                let members = seen.members.iter();
                let least = members.filter_map(|member| member.figures.get(place)).map(left);
                least.min().unwrap_or_else(|| figure.hard.clone())
            }
            false => {
                let mut available = left(figure);
                available.sub_assign(guaranteed_to_others);
                available
            }
        };
        wire::ResourceUsage {
            resource: figure.resource.clone(),
            hard: figure.hard.clone(),
            used: figure.used.clone(),
            reserved: figure.reserved.clone(),
            available,
            guaranteed_to_others: Some(guaranteed_to_others.clone()),
        }
    };
    wire::GroupUsage {
        group: seen.view.record.name.clone(),
        resources: seen.view.figures.iter().enumerate().map(resource).collect(),
        namespaces: seen.members.iter().map(member).collect(),
        namespaces_omitted: seen.omitted(),
        as_of: wire::AsOf { sequence: head.sequence, time: head.time },
        lagging,
    }
}

/// A namespace's usage of a group.
pub(crate) fn member(member: &MemberView) -> wire::MemberUsage {
    wire::MemberUsage {
        namespace: member.namespace.clone(),
        used: numbers(&member.figures, |figure| figure.used.clone()),
        reserved: numbers(&member.figures, |figure| Some(figure.reserved.clone())),
    }
}

/// The limits of a group with the usage that counts against them.
pub(crate) fn figures(view: &GroupView) -> impl Iterator<Item = &Figure> {
    view.figures.iter().map(|figure| &figure.figure)
}

/// Amounts that are guaranteed to groups below this one and not used by them; zeros are left out.
pub(crate) fn guaranteed_to_others(view: &GroupView) -> ResourceList {
    let of = |figure: &GroupFigure| {
        let amount = figure.guaranteed_to_others.clone();
        (!amount.is_zero()).then(|| (figure.figure.resource.clone(), amount))
    };
    view.figures.iter().filter_map(of).collect()
}

/// The conditions of a group: its parts that are not in effect. Conditions that depend on the members are included only
/// if the members are given.
pub(crate) fn conditions(
    view: &GroupView,
    members: Option<&GroupWithMembers>,
    enforcement: &Enforcement,
) -> Vec<wire::Condition> {
    let condition = |kind: &str, reason: &str, message| wire::Condition {
        r#type: kind.to_owned(),
        status: "False".to_owned(),
        reason: reason.to_owned(),
        message,
    };
    let parent = view.record.spec.extensions.parent.as_ref();
    let missing = parent.filter(|_| !view.has_parent).map(|parent| {
        let message = format!("there is no group {parent}: the group has no parent until there is");
        condition("ParentFound", "NoSuchGroup", message)
    });
    let refused = not_in_force(&view.record).map(|keys| {
        let message = format!(
            "wrong, or without a place among the other groups, and so not in force: {}",
            keys.join(", ")
        );
        condition("AnnotationsInForce", "Refused", message)
    });
    let contender = members.and_then(|seen| seen.contender.as_ref());
    let contended = contender.map(|(group, namespace)| {
        let message = format!(
            "{group} is guaranteed the same, and {namespace} is in both: the two may not have all of it at once"
        );
        condition("GuaranteesSeparate", "SharedNamespace", message)
    });
    let all = [missing, refused, contended];
    let in_force = enforcement.conditions(&view.hard);
    all.into_iter().flatten().chain(in_force).collect()
}

/// The annotations of a group from a cluster that are not in force; none if all are.
fn not_in_force(record: &GroupRecord) -> Option<Vec<String>> {
    record.adopted_version()?;
    let stored: Metadata = serde_json::from_str(&record.metadata).unwrap_or_default();
    let keys = record.spec.extensions.not_in_force(&stored.annotations);
    (!keys.is_empty()).then_some(keys)
}

/// The metadata of a group; its resourceVersion is the entry that set it.
fn metadata(record: &GroupRecord, entry: Sequence) -> Metadata {
    let stored: Metadata = serde_json::from_str(&record.metadata).unwrap_or_default();
    let mut annotations = record.spec.extensions.to_annotations();
    annotations.extend(stored.annotations.clone());
    Metadata {
        name: record.name.clone(),
        uid: record.uid.to_string(),
        resource_version: entry.to_string(),
        creation_timestamp: Some(record.created),
        annotations,
        ..stored
    }
}

/// A group as a manifest without its numbers, for comparison with a changed manifest.
pub(crate) fn manifest(record: &GroupRecord, entry: Sequence) -> Manifest {
    let mut manifest = Manifest::default();
    API_VERSION.clone_into(&mut manifest.api_version);
    KIND.clone_into(&mut manifest.kind);
    manifest.metadata = metadata(record, entry);
    manifest.spec.selector = record.spec.selector.clone();
    manifest.spec.quota = record.spec.quota.clone();
    manifest
}

/// The part of a manifest's metadata that is stored beside the record's own fields, of which `spec` is one. Annotations
/// that equal the written form of the record's extensions are left out. An annotation with the same meaning in other
/// words is kept, since its author compares texts.
pub(crate) fn stored_metadata(manifest: &Manifest, spec: &Spec) -> Box<str> {
    let mut metadata = manifest.metadata.clone();
    metadata.namespace = Name::default();
    for (key, text) in spec.extensions.to_annotations() {
        if metadata.annotations.get(&key) == Some(&text) {
            metadata.annotations.remove(&key);
        }
    }
    quota::stored_metadata(&metadata)
}
