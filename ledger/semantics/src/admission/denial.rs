//! Denials, with the messages of Kubernetes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Name, field::quoted, object::GroupResource, quantity::Quantity, quota::scopes::BrokenScope,
    resource::ResourceList,
};

/// Why a request is denied. Its text is Kubernetes' own, byte for byte, before it is wrapped by
/// [`Denial::message`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// A quota has too little room.
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    ExceedsHard {
        /// The first such quota.
        quota: Name,
        /// The requested amounts of the names that do not fit.
        requested: ResourceList,
        /// The amounts that count against the limits of these names.
        used: ResourceList,
        /// The limits of these names.
        limited: ResourceList,
    },
    /// A quota on cpu or memory requires every container to specify its amounts.
    #[error("failed quota: {quota}: {text}")]
    MustSpecify {
        /// The quota.
        quota: Name,
        /// The missing amounts and the containers.
        text: String,
    },
    /// The amount that counts against a limit is unknown.
    #[error("status unknown for quota: {quota}, resources: {}", resources.join(","))]
    StatusUnknown {
        /// The quota.
        quota: Name,
        /// All names of this kind that it limits.
        resources: Vec<Name>,
    },
    /// The configuration demands a quota for these names, and no quota that applies limits them.
    #[error("insufficient quota to consume: {}", names.join(","))]
    InsufficientQuota {
        /// The names, sorted.
        names: Vec<Name>,
    },
    /// The configuration demands a quota with these scopes, and there is none.
    #[error("insufficient quota to match these scopes: [{}]", scopes.join(" "))]
    UncoveredScopes {
        /// The scopes, as Kubernetes prints them.
        scopes: Vec<String>,
    },
    /// The object requests negative amounts.
    #[error("quota usage is negative for resource(s): {}", resources.join(","))]
    NegativeUsage {
        /// The names, sorted.
        resources: Vec<Name>,
    },
    /// An update came without the object that it updates.
    #[error("unable to get previous usage since prior version of object was not found")]
    NoPreviousVersion,
    /// A quota has a selector that cannot be evaluated; it blocks every pod (or volume claim) of
    /// its namespace.
    #[error("error matching scopes of quota {quota}, err: {source}")]
    BrokenSelector {
        /// The quota.
        quota: Name,
        /// The selector, and its error.
        source: BrokenScope,
    },
}

impl Denial {
    /// The HTTP status of Kubernetes' answer. An invalid quota or configuration is an internal error (500), all others
    /// are forbidden (403).
    pub const fn code(&self) -> u16 {
        match self {
            Self::UncoveredScopes { .. } | Self::BrokenSelector { .. } => 500,
            _ => 403,
        }
    }

    /// The reason in Kubernetes' answer: `Forbidden`, or none for an internal error.
    pub const fn kubernetes_reason(&self) -> &'static str {
        if self.code() == 403 { "Forbidden" } else { "" }
    }

    /// Quota Ledger's reason: one word for each kind of denial.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::ExceedsHard { .. } => "ExceedsHard",
            Self::MustSpecify { .. } => "MustSpecify",
            Self::StatusUnknown { .. } => "StatusUnknown",
            Self::InsufficientQuota { .. } => "InsufficientQuota",
            Self::UncoveredScopes { .. } => "UncoveredScopes",
            Self::NegativeUsage { .. } => "NegativeUsage",
            Self::NoPreviousVersion => "NoPreviousVersion",
            Self::BrokenSelector { .. } => "BrokenSelector",
        }
    }

    /// The message in Kubernetes' answer: it names a forbidden object, but not the object of an internal error.
    pub fn message(&self, kind: &GroupResource, name: &str) -> String {
        let text = self.to_string();
        if self.code() == 403 { wrap_forbidden(kind, name, &text) } else { text }
    }
}

/// Kubernetes' message about an object that is forbidden: `pods "web" is forbidden: <text>`.
pub fn wrap_forbidden(kind: &GroupResource, name: &str, text: &str) -> String {
    if name.is_empty() {
        format!("{kind} is forbidden: {text}")
    } else {
        format!("{kind} {} is forbidden: {text}", quoted(name))
    }
}

/// The kind of a limit's owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum LimitKind {
    /// A quota of a namespace.
    #[default]
    ResourceQuota,
    /// A group.
    ClusterResourceQuota,
}

/// A quota or group that a decision checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LookedAt")]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
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
    pub fn counted(&self) -> Quantity {
        let mut counted = self.used.clone();
        counted.add_assign(&self.reserved);
        if let Some(others) = &self.guaranteed_to_others {
            counted.add_assign(others);
        }
        counted
    }

    /// The remaining amount; negative if the limit is exceeded already.
    pub fn left(&self) -> Quantity {
        let mut left = self.hard.clone();
        left.sub_assign(&self.counted());
        left
    }

    /// Whether more was requested than remains.
    pub fn is_exceeded(&self) -> bool {
        self.requested.is_positive() && self.left() < self.requested
    }
}
