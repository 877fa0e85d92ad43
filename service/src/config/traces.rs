//! `traces.*`: where spans are sent.

use serde::{Deserialize, Serialize};

/// `traces.*`: where spans are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traces {
    /// Address of an OTLP receiver over HTTP, as `http://collector:4318/v1/traces`. None: no spans are made.
    #[serde(with = "crate::config::blank")]
    pub otlp_url: Option<String>,
    /// Share of the traces that begin here that are sampled, from 0 to 1. A caller's decision in `traceparent` goes before
    /// it.
    pub sample_ratio: f64,
}
