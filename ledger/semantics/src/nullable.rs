//! Fields of Kubernetes' objects that may be null or absent.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the empty value, as Kubernetes does everywhere.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether a field can be left out on writing.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
