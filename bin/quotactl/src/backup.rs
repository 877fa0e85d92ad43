//! `backup`: a consistent copy of the ledger, taken from the daemon while it serves.

use std::{path::Path, sync::Arc};

use quota_client::http::Address;
use quota_journal::disk::RealDisk;

use super::{
    failure::{Failure, Outcome},
    ledger::{Building, unread},
    progress::Progress,
    session::Session,
};

/// Takes the copy. The directory appears when the copy is complete, checked and durable.
pub(crate) fn run(session: &Session, directory: &Path) -> Outcome {
    let building = Building::begin(directory)?;
    let input = session.client.download(&Address::of(["v1", "backup"]))?;
    let progress = Progress::counting_bytes("backing up");
    let mut input = progress.read(input);
    let name = Path::new("the backup that the daemon sends");
    let made = quota_journal::read_backup(&mut input, name, Arc::new(RealDisk), building.path());
    let made = made.map_err(|error| match error {
        // The ledger is not damaged: the connection was cut.
        quota_journal::Error::Damaged(damage) => Failure::general(damage.to_string())
            .hint("the connection was cut; the daemon's log may say why. Try again"),
        error => unread(error),
    })?;
    drop(progress);
    building.finish_copy(&made, &session.output)
}
