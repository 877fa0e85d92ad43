//! Who causes entries and denials.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Name;

/// Who caused something, and where it can be looked up elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Actor {
    /// The authenticated principal, the stream, or the daemon itself.
    pub principal: Name,
    /// The user on whose behalf it acted, as an AdmissionReview's `userInfo` tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<Name>,
    /// The request's id (`X-Request-Id`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Name>,
    /// The W3C trace context of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Name>,
    /// Why, in the actor's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Name>,
}

impl Actor {
    /// An actor of whom nothing but the name is known.
    #[must_use]
    pub fn named(principal: &str) -> Arc<Self> {
        Arc::new(Self {
            principal: principal.into(),
            ..Self::default()
        })
    }
}
