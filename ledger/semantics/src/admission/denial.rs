//! Why a request is denied, in Kubernetes' words.

use crate::{
    Name,
    object::GroupResource,
    quota::{field::quoted, scopes::BrokenScope},
    resource::ResourceList,
};

/// Why a request is denied. Its text is Kubernetes' own, byte for byte, before it is wrapped by
/// [`Denial::message`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// A quota has too little room.
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    ExceedsHard {
        /// The first quota that has.
        quota: Name,
        /// What the request needs of each name that does not fit, and of no other.
        requested: ResourceList,
        /// What counts against the limit of these names.
        used: ResourceList,
        /// The limits of these names.
        limited: ResourceList,
    },
    /// A quota on cpu or memory demands that every container says how much it needs.
    #[error("failed quota: {quota}: {text}")]
    MustSpecify {
        /// The quota.
        quota: Name,
        /// What has to be specified for which containers.
        text: String,
    },
    /// What counts against a limit is unknown.
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
    /// The object asks for less than nothing.
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
        /// The selector, and what is wrong with it.
        source: BrokenScope,
    },
}

impl Denial {
    /// The HTTP status that Kubernetes answers with. A quota or configuration that is at fault is
    /// an internal error (500), all else is forbidden (403).
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::UncoveredScopes { .. } | Self::BrokenSelector { .. } => 500,
            _ => 403,
        }
    }

    /// The reason of Kubernetes' answer: `Forbidden`, or none for an internal error.
    #[must_use]
    pub const fn kubernetes_reason(&self) -> &'static str {
        if self.code() == 403 { "Forbidden" } else { "" }
    }

    /// Our reason, one word for each way to be denied.
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

    /// The message of Kubernetes' answer: what is forbidden is named, an internal error is not.
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
