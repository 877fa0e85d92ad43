//! Positions of the hash chain.

use quota_semantics::Timestamp;

use crate::Hash;

/// A durable position of the hash chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    /// Sequence of the last durable entry; 0 if there is none.
    pub sequence: u64,
    /// Chain hash of the last durable batch.
    pub hash: Hash,
    /// Ledger time of the last durable entry; the epoch if there is none.
    pub time: Timestamp,
}

impl Durable {
    /// The position of an empty ledger.
    pub const NOTHING: Self = Self {
        sequence: 0,
        hash: Hash::GENESIS,
        time: Timestamp::EPOCH,
    };
}
