//! Which requests are decided about at all, and what their object is called.

use std::str::FromStr;

use crate::object::{Evaluator, GroupResource, Metadata, Traits, is_ignored};

/// What a request does; Kubernetes' four operations of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// It makes a new object.
    Create,
    /// It changes an object, or a part of it.
    Update,
    /// It deletes an object. Never denied: what it frees comes back when it is gone.
    Delete,
    /// It opens a connection, such as `exec`.
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
/// `new` and `old` are the traits of the object, as far as the request brings them. An update of a
/// pod can only change what it counts for by its deadline, since the rest of its spec is fixed but
/// for `pods/resize`.
#[must_use]
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

/// What messages call the object: by the name in the request, else its own, else the prefix that
/// a name would be made from, else `Unknown`.
#[must_use]
pub fn name_in_messages<'n>(requested: &'n str, metadata: Option<&'n Metadata>) -> &'n str {
    let own = metadata.map(|metadata| [metadata.name.as_str(), metadata.generate_name.as_str()]);
    std::iter::once(requested)
        .chain(own.into_iter().flatten())
        .find(|name| !name.is_empty())
        .unwrap_or("Unknown")
}
