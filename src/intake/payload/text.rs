//! Strings of a payload.

use std::borrow::Cow;

use serde::Deserialize;

/// A string; borrowed from the payload unless it has escapes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);
