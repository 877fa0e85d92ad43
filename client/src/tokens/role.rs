//! Roles of callers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A permission of callers. No role includes another, so a caller that needs several has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read quotas, reservations, usage, objects, entries.
    Read,
    /// Reserve, extend, commit, release and check capacity.
    Reserve,
    /// Send object events.
    Ingest,
    /// Set and delete quotas.
    Admin,
}

/// A text that names no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a role: {0:?}")]
pub struct ParseRoleError(String);

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Read, Self::Reserve, Self::Ingest, Self::Admin];

    /// Its name in the tokens file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Reserve => "reserve",
            Self::Ingest => "ingest",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Role {
    type Err = ParseRoleError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut roles = Self::ALL.into_iter();
        let role = roles.find(|role| role.as_str() == text);
        role.ok_or_else(|| ParseRoleError(text.to_owned()))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
