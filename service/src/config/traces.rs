//! `traces.*`: the receiver of spans.

use serde::{Deserialize, Serialize};

/// `traces.*`: the receiver of spans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traces {
    /// Address of an OTLP receiver over HTTP, as in `http://collector:4318/v1/traces`. None: tracing is off.
    #[serde(with = "crate::config::blank")]
    pub otlp_url: Option<String>,
    /// Fraction of the traces that begin here that are sampled, from 0 to 1. A caller's decision in `traceparent` takes
    /// precedence.
    pub sample_ratio: f64,
}
