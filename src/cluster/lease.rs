//! Confirms reads of a leader: a read is answered only if no other node can have led before.

use std::{future::Future, pin::Pin};

use super::Cluster;
use crate::writer::{Lease, Unavailable};

pub(super) struct Leading(pub(super) Cluster);

impl Lease for Leading {
    fn confirm(&self) -> Pin<Box<dyn Future<Output = Result<(), Unavailable>> + Send + '_>> {
        Box::pin(async {
            let ledger = &self.0.0.ledger;
            if !ledger.decides() {
                return Ok(());
            }
            let member = self.0.member().ok_or(Unavailable::NotLeader)?;
            match member.confirm().await {
                Ok(()) => Ok(()),
                // The data read is durable: after a handover this is a valid read of a follower.
                Err(_) if !ledger.decides() => Ok(()),
                Err(_) => Err(Unavailable::NotLeader),
            }
        })
    }
}
