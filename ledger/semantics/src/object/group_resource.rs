//! Kinds of objects: API group and plural resource name.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Name;

/// A kind of object, by API group and plural resource name, such as `deployments` in `apps`.
///
/// Written as Kubernetes writes it: `pods` in the core group, else `deployments.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// The API group; empty for the core group.
    pub group: Name,
    /// The plural resource name, in lower case.
    pub resource: Name,
}

impl GroupResource {
    /// The kind `resource` of `group` (empty: the core group).
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: Name::from(group), resource: Name::from(resource) }
    }

    /// The kind as a name.
    pub fn name(&self) -> Name {
        match self.group.is_empty() {
            true => self.resource.clone(),
            false => Name::from(self.to_string()),
        }
    }

    /// Whether this is `resource` of `group`.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.resource == resource && self.group == group
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// A text that names no kind of object: it has no resource name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a resource, or a resource and its group (pods, deployments.apps): {0:?}")]
pub struct ParseGroupResourceError(String);

impl FromStr for GroupResource {
    type Err = ParseGroupResourceError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        if resource.is_empty() {
            return Err(ParseGroupResourceError(text.to_owned()));
        }
        Ok(Self::new(group, resource))
    }
}

impl Serialize for GroupResource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupResource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses_with_and_without_a_group() {
        for text in ["pods", "deployments.apps", "resourceclaims.resource.k8s.io"] {
            assert_eq!(text.parse::<GroupResource>().unwrap().to_string(), text);
        }
        let kind: GroupResource = "resourceclaims.resource.k8s.io".parse().unwrap();
        assert!(kind.is("resource.k8s.io", "resourceclaims"));
        assert!("".parse::<GroupResource>().is_err());
        assert!(".apps".parse::<GroupResource>().is_err());
    }
}
