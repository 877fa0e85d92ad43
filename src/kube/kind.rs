//! The stored kinds.

use quota_semantics::{group, quota};
use serde_json::Value;

/// A stored kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A quota of one namespace.
    Quota,
    /// A quota over many namespaces.
    Group,
}

/// The API group of ClusterResourceQuota.
pub(super) const QUOTA_GROUP: &str = group::manifest::GROUP;
pub(super) const QUOTA_GROUP_VERSION: &str = "v1";

impl Kind {
    pub(super) const fn api_version(self) -> &'static str {
        match self {
            Self::Quota => quota::manifest::API_VERSION,
            Self::Group => group::manifest::API_VERSION,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Quota => quota::manifest::KIND,
            Self::Group => group::manifest::KIND,
        }
    }

    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::Quota => "resourcequotas",
            Self::Group => group::manifest::PLURAL,
        }
    }

    /// The plural with the API group, as in messages about objects.
    pub(super) fn resource(self) -> String {
        self.qualified(self.plural())
    }

    /// The kind with the API group, as in messages.
    pub(super) fn qualified_name(self) -> String {
        self.qualified(self.name())
    }

    fn qualified(self, name: &str) -> String {
        match self {
            Self::Quota => name.to_owned(),
            Self::Group => format!("{name}.{QUOTA_GROUP}"),
        }
    }

    /// The kind of an object that this process has made.
    pub(super) fn of_object(object: &Value) -> Self {
        match object["kind"].as_str() {
            Some(group::manifest::KIND) => Self::Group,
            _ => Self::Quota,
        }
    }
}
