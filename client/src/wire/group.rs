//! Groups: quotas over many namespaces.

use std::collections::BTreeMap;

use quota_semantics::{
    Name, Timestamp,
    group::{Enforcement, Override, Selector, selector::LabelSelector},
    quota::spec::ScopeSelector,
    resource::ResourceList,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AsOf, Condition, ResourceUsage, is_false, is_zero};

/// A group: `GET /v1/groups/{name}`. It can be changed and sent back by `PUT`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The name of the group.
    pub name: Name,
    /// The uid of the group; a group that was deleted and created again has another one.
    #[serde(default)]
    pub uid: String,
    /// The sequence of the entry that last set the group.
    #[serde(default)]
    pub resource_version: String,
    /// The time at which the group was created; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<Timestamp>,
    /// Labels of the group itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the group itself, without those with the prefix `quota-ledger.io/`, which are fields here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The selector of the member namespaces; the members of the children are members, too.
    #[serde(default)]
    pub selector: Selector,
    /// The limits. While an override lasts, `status.hard` has the limits in force.
    #[serde(default)]
    pub hard: ResourceList,
    /// The scopes that an object must match to count, as in a ResourceQuota.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Name>,
    /// The scope selector that an object must match to count, as in a ResourceQuota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_selector: Option<ScopeSelector>,
    /// The parent group, whose members include those of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Name>,
    /// The amounts that no other group below the parent can take.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub guaranteed: ResourceList,
    /// The label selector that an object must match to count; absent: all objects count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<LabelSelector>,
    /// Whether `hard` applies to each member namespace separately, instead of their sum.
    #[serde(default, skip_serializing_if = "is_false")]
    pub each: bool,
    /// The limits above which a grant comes with a warning.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub soft: ResourceList,
    /// The treatment of a request that exceeds `hard`.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// Limits that replace those in `hard` until a time.
    #[serde(rename = "override", default, skip_serializing_if = "Option::is_none")]
    pub r#override: Option<Override>,
    /// The limits in force, and the usage.
    pub status: GroupStatus,
    /// The last entry that the response includes; absent in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The limits of a group in force, and the usage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// The limits in force.
    pub hard: ResourceList,
    /// The amounts of the members' observed objects and commits.
    pub used: ResourceList,
    /// The amounts that pending reservations of the members hold beyond `used`.
    pub reserved: ResourceList,
    /// The amounts that are guaranteed to descendants, and not used or reserved by them.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub guaranteed_to_others: ResourceList,
    /// The time at which the override in force ends; absent if none is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_until: Option<Timestamp>,
    /// The groups that name this group as their parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Name>,
    /// The number of member namespaces.
    pub members: usize,
    /// The first 1,000 members, sorted by name; absent in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<MemberUsage>>,
    /// The number of members that `namespaces` leaves out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub namespaces_omitted: usize,
    /// The parts of the group that are not in effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A member namespace of a group, and its part of the group's usage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemberUsage {
    /// The namespace.
    pub namespace: Name,
    /// The amounts of its observed objects and commits.
    pub used: ResourceList,
    /// The amounts that its pending reservations hold beyond `used`.
    pub reserved: ResourceList,
}

/// The usage of a group, and the remaining amount of each limit: `GET /v1/groups/{name}/usage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupUsage {
    /// The group.
    pub group: Name,
    /// One item per limit in force.
    pub resources: Vec<ResourceUsage>,
    /// The first 1,000 members, sorted by name.
    pub namespaces: Vec<MemberUsage>,
    /// The number of members that `namespaces` leaves out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub namespaces_omitted: usize,
    /// The last entry that the response includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}
