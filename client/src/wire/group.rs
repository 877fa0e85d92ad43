//! Groups: quotas over many namespaces.

use std::collections::BTreeMap;

use quota_semantics::{
    Name, Timestamp,
    group::{Enforcement, Override, Selector, selector::LabelSelector},
    quota::spec::ScopeSelector,
    resource::ResourceList,
};
use serde::{Deserialize, Serialize};

use super::{AsOf, Condition, ResourceUsage, is_false, is_zero};

/// A group: `GET /v1/groups/{name}`. What is read here can be sent back by `PUT`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Its name.
    pub name: Name,
    /// Its identity: another one if it is deleted and made anew.
    #[serde(default)]
    pub uid: String,
    /// The entry that set it.
    #[serde(default)]
    pub resource_version: String,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<Timestamp>,
    /// Labels of the group itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the group itself, but for those that are fields here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Its member namespaces, beside those of its children.
    #[serde(default)]
    pub selector: Selector,
    /// The limits. While an override lasts, those in force stand in `status.hard`.
    #[serde(default)]
    pub hard: ResourceList,
    /// Which objects count, as in a ResourceQuota.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Name>,
    /// Which objects count, as in a ResourceQuota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_selector: Option<ScopeSelector>,
    /// The group whose members include those of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Name>,
    /// What no other group below the parent can take.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub guaranteed: ResourceList,
    /// Which objects of the members count, by their own labels; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<LabelSelector>,
    /// Whether `hard` holds for each member alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub each: bool,
    /// Limits above which a grant comes with a warning.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub soft: ResourceList,
    /// What becomes of a request that exceeds `hard`.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// Other limits, until a time.
    #[serde(rename = "override", default, skip_serializing_if = "Option::is_none")]
    pub r#override: Option<Override>,
    /// Its numbers.
    pub status: GroupStatus,
    /// How far the ledger was; none on the items of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The numbers of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// The limits in force.
    pub hard: ResourceList,
    /// What objects of the members count for.
    pub used: ResourceList,
    /// What pending reservations of the members hold beside that.
    pub reserved: ResourceList,
    /// What is guaranteed to the groups below it, and not used or reserved by them.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub guaranteed_to_others: ResourceList,
    /// When the override in force ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_until: Option<Timestamp>,
    /// The groups that name it as their parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Name>,
    /// Of how many namespaces it counts objects.
    pub members: usize,
    /// The members by name, as many as an answer holds; left out on the items of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<MemberUsage>>,
    /// How many more members there are than `namespaces` names.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub namespaces_omitted: usize,
    /// Which parts of the group are not in effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A namespace of a group, and what it takes of the group's limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemberUsage {
    /// The namespace.
    pub namespace: Name,
    /// What its objects count for.
    pub used: ResourceList,
    /// What its pending reservations hold beside that.
    pub reserved: ResourceList,
}

/// What counts in a group, now or at another time: `GET /v1/groups/{name}/usage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupUsage {
    /// The group.
    pub group: Name,
    /// One for each limit that was in force.
    pub resources: Vec<ResourceUsage>,
    /// The members by name, as many as an answer holds.
    pub namespaces: Vec<MemberUsage>,
    /// How many more members there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub namespaces_omitted: usize,
    /// How far the ledger was.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}
