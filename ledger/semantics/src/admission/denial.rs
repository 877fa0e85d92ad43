//! Denials, with the messages of Kubernetes.

use crate::{
    Name, field::quoted, object::GroupResource, quota::scopes::BrokenScope, resource::ResourceList,
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
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::UncoveredScopes { .. } | Self::BrokenSelector { .. } => 500,
            _ => 403,
        }
    }

    /// The reason in Kubernetes' answer: `Forbidden`, or none for an internal error.
    #[must_use]
    pub const fn kubernetes_reason(&self) -> &'static str {
        if self.code() == 403 { "Forbidden" } else { "" }
    }

    /// Quota Ledger's reason: one word for each kind of denial.
    #[must_use]
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
    #[must_use]
    pub fn message(&self, kind: &GroupResource, name: &str) -> String {
        let text = self.to_string();
        if self.code() == 403 {
            wrap_forbidden(kind, name, &text)
        } else {
            text
        }
    }
}

/// Kubernetes' message about an object that is forbidden: `pods "web" is forbidden: <text>`.
#[must_use]
pub fn wrap_forbidden(kind: &GroupResource, name: &str, text: &str) -> String {
    if name.is_empty() {
        format!("{kind} is forbidden: {text}")
    } else {
        format!("{kind} {} is forbidden: {text}", quoted(name))
    }
}
