//! The limits that a decision checked, as callers read them.

use serde::{Deserialize, Serialize};

use crate::{Name, quantity::Quantity};

/// The kind of a limit's owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
pub enum LimitKind {
    /// A quota of a namespace.
    #[default]
    ResourceQuota,
    /// A group.
    ClusterResourceQuota,
}

/// A quota or group that a decision checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "LookedAt"))]
#[serde(rename_all = "camelCase")]
pub struct CheckedQuota {
    /// The name of the quota or group.
    pub name: Name,
    /// Whether it is a quota or a group.
    #[serde(default)]
    pub kind: LimitKind,
    /// The checked limits.
    pub resources: Vec<CheckedLimit>,
}

/// A limit that a decision checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
#[serde(rename_all = "camelCase")]
pub struct CheckedLimit {
    /// The resource.
    pub resource: Name,
    /// The limit.
    pub hard: Quantity,
    /// The amount of observed objects and commits.
    #[serde(default)]
    pub used: Quantity,
    /// The amount that pending reservations hold beyond `used`.
    #[serde(default)]
    pub reserved: Quantity,
    /// The amount that is guaranteed to other groups, and not used or reserved by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed_to_others: Option<Quantity>,
    /// The limit above which a grant comes with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft: Option<Quantity>,
    /// The requested amount.
    #[serde(default)]
    pub requested: Quantity,
}

impl CheckedLimit {
    /// The amount that counts against the limit, as Kubernetes' message says it: what is reserved and what is guaranteed to
    /// others count, too.
    #[must_use]
    pub fn counted(&self) -> Quantity {
        let mut counted = self.used.clone();
        counted.add_assign(&self.reserved);
        if let Some(others) = &self.guaranteed_to_others {
            counted.add_assign(others);
        }
        counted
    }

    /// The remaining amount; negative if the limit is exceeded already.
    #[must_use]
    pub fn left(&self) -> Quantity {
        let mut left = self.hard.clone();
        left.sub_assign(&self.counted());
        left
    }

    /// Whether more was requested than remains.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.requested.is_positive() && self.left() < self.requested
    }
}
