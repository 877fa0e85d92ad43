//! The spec of a quota or group, as far as the ledger can read it.
//!
//! A definition of a kind may allow any text as an amount. The ledger rejects an object with an amount that is no
//! quantity, or whose text is too long, and a list with a rejected object is not complete: one mistake would hold up the
//! whole kind.

use std::borrow::Cow;

use quota_semantics::{
    Name,
    embedded::{plain_value, refuse_embedded},
    group::manifest::ManifestSpec,
    quantity::{Quantity, of_any_length},
    quota,
};
use serde_json::Value;

use super::read;

/// Where a spec has its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limits {
    /// In `hard`: it is that of a quota.
    OfQuota,
    /// In `quota.hard`: it is that of a group.
    OfGroup,
}

/// A spec that the ledger can read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spec<'a> {
    /// Its JSON.
    pub(super) text: Cow<'a, str>,
    /// The names that it limits.
    pub(super) limited: Vec<Name>,
    /// The part of the object's spec that is left out, and the reason.
    pub(super) lacks: Option<String>,
}

impl Limits {
    /// Reads a spec. Limits that are no quantities are left out, and all of it if it cannot be read without them either.
    /// Texts that are too long for the ledger are shortened.
    pub(super) fn read(self, text: &str) -> Spec<'_> {
        let error = match self.names(text) {
            Ok(limited) => {
                return Spec { text: text.into(), limited, lacks: None };
            }
            Err(error) => error,
        };
        let rest = self.without_odd_amounts(text);
        let rest = rest.and_then(|(rest, left_out)| Ok((self.names(&rest)?, rest, left_out)));
        match rest {
            Ok((limited, rest, left_out)) => Spec {
                text: rest.into(),
                limited,
                lacks: (left_out > 0).then(|| format!("{left_out} of its limits: {error}")),
            },
            Err(_) => Spec {
                text: "{}".into(),
                limited: Vec::new(),
                lacks: Some(format!("its limits: {error}")),
            },
        }
    }

    /// The names that a spec limits, as the ledger reads it.
    fn names(self, text: &str) -> Result<Vec<Name>, String> {
        refuse_embedded(text.as_bytes()).map_err(|error| error.to_string())?;
        let hard = match self {
            Self::OfQuota => read::<quota::Spec>(text)?.hard,
            Self::OfGroup => read::<ManifestSpec>(text)?.quota.hard,
        };
        Ok(hard.names().cloned().collect())
    }

    /// The spec in canonical quantities, without the limits that are none, and the number of those.
    fn without_odd_amounts(self, text: &str) -> Result<(String, usize), String> {
        let mut spec = plain_value(text.as_bytes()).map_err(|error| error.to_string())?;
        let hard = spec.pointer_mut(match self {
            Self::OfQuota => "/hard",
            Self::OfGroup => "/quota/hard",
        });
        let mut left_out = 0;
        if let Some(hard) = hard.and_then(Value::as_object_mut) {
            let before = hard.len();
            hard.retain(|_, amount| {
                let read = of_any_length(|| Quantity::from_json_token(&amount.to_string()));
                if let Ok(quantity) = &read {
                    *amount = quantity.exact().to_string().into();
                }
                read.is_ok()
            });
            left_out = before - hard.len();
        }
        Ok((spec.to_string(), left_out))
    }
}
