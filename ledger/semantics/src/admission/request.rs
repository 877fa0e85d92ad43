//! Requests that need a decision, and the names of their objects in messages.

use std::str::FromStr;

use crate::object::{Evaluator, GroupResource, Metadata, Traits, is_ignored};

/// The operation of a request: one of Kubernetes' four admission operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Creates an object.
    Create,
    /// Changes an object, or a part of it.
    Update,
    /// Deletes an object. Never denied: its capacity is free again when the object is gone.
    Delete,
    /// Opens a connection, such as `exec`.
    Connect,
}

/// A text that names no operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an operation (CREATE, UPDATE, DELETE, CONNECT): {0:?}")]
pub struct ParseOperationError(String);

impl FromStr for Operation {
    type Err = ParseOperationError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "CREATE" => Ok(Self::Create),
            "UPDATE" => Ok(Self::Update),
            "DELETE" => Ok(Self::Delete),
            "CONNECT" => Ok(Self::Connect),
            other => Err(ParseOperationError(other.to_owned())),
        }
    }
}

/// Whether quotas apply at all; if not, the request is allowed and charged nothing.
///
/// `new` and `old` are the traits of the object, as far as the request holds them. An update of a pod can change its
/// footprint only by its deadline, since the rest of its spec is immutable, except through `pods/resize`.
pub fn evaluated(
    operation: Operation,
    namespace: &str,
    kind: &GroupResource,
    subresource: &str,
    new: &Traits,
    old: Option<&Traits>,
) -> bool {
    use Operation::{Create, Update};
    if namespace.is_empty() || is_ignored(kind) {
        return false;
    }
    match (Evaluator::of(kind), subresource, operation) {
        (_, "", Create) => !kind.is("", "namespaces"),
        (Evaluator::Pods, "", Update) => {
            old.is_some_and(|old| is_terminating(old) != is_terminating(new))
        }
        (Evaluator::Pods, "resize", Update) => true,
        (Evaluator::Services | Evaluator::VolumeClaims | Evaluator::ResourceClaims, "", Update) => {
            true
        }
        (Evaluator::VolumeClaims, "status", Update) => old.is_some(),
        _ => false,
    }
}

fn is_terminating(traits: &Traits) -> bool {
    matches!(traits, Traits::Pod(pod) | Traits::Replica(pod) if pod.terminating)
}

/// The name of the object in messages: the name in the request, else that in its metadata, else the prefix of a
/// generated name, else `Unknown`.
pub fn name_in_messages<'n>(requested: &'n str, metadata: Option<&'n Metadata>) -> &'n str {
    let own = metadata.map(|metadata| [metadata.name.as_str(), metadata.generate_name.as_str()]);
    std::iter::once(requested)
        .chain(own.into_iter().flatten())
        .find(|name| !name.is_empty())
        .unwrap_or("Unknown")
}
