//! The names of a replicated ledger's stream and subjects on NATS.

use crate::protocol::NodeName;

/// The names of one partition. They contain its number, although there is only one so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The stream.
    pub stream: String,
    /// The subject of the log, the only one of the stream. It has no subscribers, since refused messages appear there
    /// too.
    pub log: String,
    /// The subject on which a leader announces new messages of the log.
    pub hint: String,
}

impl Names {
    /// The names of a ledger's partition. The ledger's name follows the rules of a node's.
    #[must_use]
    pub fn new(ledger: &NodeName, partition: u32) -> Self {
        Self {
            stream: format!("QL_{ledger}_{partition}"),
            log: format!("ql.{ledger}.{partition}.log"),
            hint: format!("ql.{ledger}.{partition}.hint"),
        }
    }
}
