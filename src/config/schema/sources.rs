//! Where objects and quotas come from.

use std::num::NonZeroUsize;

use quota_semantics::{
    group::manifest,
    object::{GroupResource, MEASURED},
};
use serde::{Deserialize, Serialize};

use quota_service::{
    config::{Period, Size, blank},
    nats::Connection,
};

use super::Config;

/// `nats.*`: the event stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nats {
    /// Servers, separated by commas; none: events come by HTTP only.
    #[serde(with = "blank")]
    pub url: Option<String>,
    /// The JetStream stream to consume.
    pub stream: String,
    /// The subjects to consume from it.
    pub subject: String,
    /// Create the stream if it is missing.
    pub create_stream: bool,
    /// Credentials, certificates, and how often to try again.
    #[serde(flatten)]
    pub connection: Connection,
    /// Messages that one pull requests.
    pub fetch_messages: NonZeroUsize,
    /// Largest message that is decoded; a larger one is recorded as rejected.
    pub max_message_bytes: Size,
    /// How often an idle consumer checks how far the stream has got.
    pub poll_interval: Period,
    /// The cluster whose publisher receives relist requests; none: the clusters that the subjects of the stream's
    /// messages name.
    #[serde(with = "blank")]
    pub cluster: Option<String>,
    /// Prefix of the subject on which publishers receive relist requests.
    pub control_prefix: String,
    /// Shortest wait between two relist requests.
    pub relist_interval: Period,
    /// Source of the watermark: the time up to which all events have been seen.
    pub watermark: WatermarkSource,
    /// The kinds whose watermarks are required; none: the kinds for which the webhook is always called.
    pub watermark_resources: Vec<String>,
    /// A watermark that is older than this lags.
    pub max_watermark_age: Period,
}

/// Source of the watermark: the time up to which all events have been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WatermarkSource {
    /// The stream alone: its content at a poll counts as everything that has happened by then.
    Poll,
    /// The publisher, by its bookmarks.
    Bridge,
}

impl Config {
    /// The kinds whose watermarks are required: the configured ones, or those for which the webhook is always called,
    /// and quotas and groups if they come from the stream.
    #[must_use]
    pub fn watermark_resources(&self) -> Vec<String> {
        if !self.nats.watermark_resources.is_empty() {
            return self.nats.watermark_resources.clone();
        }
        let measured = MEASURED.map(|(group, resource)| GroupResource::new(group, resource));
        let mut kinds: Vec<_> = measured.map(|kind| kind.name().to_string()).to_vec();
        if self.quotas.adopt {
            kinds.extend(["resourcequotas", manifest::RESOURCE].map(str::to_owned));
        }
        kinds.extend(self.admission.charge.iter().cloned());
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// `quotas.*`: where quotas come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quotas {
    /// Events of kind `ResourceQuota` set quotas.
    pub adopt: bool,
    /// The API servers run without their plugin `ResourceQuota`, so that adopted quotas are enforced here alone.
    pub plugin_is_off: bool,
}
