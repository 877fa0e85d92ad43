//! What the parts of a replicated ledger are called on NATS.

use quota_replication::NodeName;

/// The names of one partition. They carry its number, although there is one so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The stream.
    pub stream: String,
    /// The subject of the log: the stream's only one. Nobody subscribes to it, since refused messages show there too.
    pub log: String,
    /// Where a leader says that there is something new in the log.
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
