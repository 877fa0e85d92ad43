//! Reads of a leader: answered when nobody else can have led before.

use std::{future::Future, pin::Pin};

use super::Cluster;
use crate::writer::{Lease, Unavailable};

pub(super) struct Leading(pub(super) Cluster);

impl Lease for Leading {
    fn confirm(&self) -> Pin<Box<dyn Future<Output = Result<(), Unavailable>> + Send + '_>> {
        Box::pin(async {
            if !self.0.0.ledger.decides() {
                return Ok(());
            }
            let member = self.0.member().ok_or(Unavailable::NotLeader)?;
            member.confirm().await.map_err(|_| Unavailable::NotLeader)
        })
    }
}
