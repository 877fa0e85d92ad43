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

/// Structs of Kubernetes' API. Every field may be null or absent, and is left out on writing if it has its default value.
macro_rules! nullable_fields {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$of_field:meta])* $field_visibility:vis $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        $visibility struct $name {$(
            $(#[$of_field])*
            #[serde(
                deserialize_with = "crate::nullable::nullable",
                skip_serializing_if = "crate::nullable::is_default"
            )]
            $field_visibility $field: $type,
        )*}
    )*};
}
pub(crate) use nullable_fields;
