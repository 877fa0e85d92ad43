//! The actors of entries and denials.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Name;

/// The principal behind an entry or denial, and references to logs and traces elsewhere.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", default)]
pub struct Actor {
    /// The authenticated principal, the stream, or the daemon itself.
    pub principal: Name,
    /// The user on whose behalf the principal acted, from an AdmissionReview's `userInfo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<Name>,
    /// The request's id (`X-Request-Id`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Name>,
    /// The W3C trace context of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Name>,
    /// The reason that the actor gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Name>,
}

impl Actor {
    /// An actor of which only the name is recorded.
    pub fn named(principal: &str) -> Arc<Self> {
        Arc::new(Self { principal: principal.into(), ..Self::default() })
    }
}
