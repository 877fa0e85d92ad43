//! In a program that sends no spans.

use std::convert::Infallible;

use http::HeaderMap;
use tracing::Span;

use super::Spans;
use crate::config::Traces;

/// Nothing is sent.
pub struct Sending(Infallible);

pub(crate) fn layer<S>(
    _: &Traces,
    _: &'static str,
    _: &'static str,
) -> Result<Option<(Spans<S>, Sending)>, Infallible> {
    Ok(None)
}

/// There is no trace to join.
pub const fn continues(_: &Span, _: &HeaderMap) {}
