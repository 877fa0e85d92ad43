//! `backup`: a consistent copy of the ledger, taken from the daemon while it serves.

use std::{path::Path, sync::Arc};

use quota_client::http::Address;
use quota_journal::{BackedUp, disk::RealDisk};
use serde_json::json;

use super::{
    failure::{Failure, Outcome},
    ledger::{Building, unread},
    output::Output,
    progress::Progress,
    session::Session,
};

/// Takes the copy. The directory appears when everything is in it, checked and durable.
pub(crate) fn run(session: &Session, directory: &Path) -> Outcome {
    let building = Building::begin(directory)?;
    let input = session.client.download(&Address::of(["v1", "backup"]))?;
    let progress = Progress::counting_bytes("backing up");
    let mut input = progress.read(input);
    let name = Path::new("the backup that the daemon sends");
    let made = quota_journal::read_backup(&mut input, name, Arc::new(RealDisk), building.path());
    let made = made.map_err(|error| match error {
        // Nothing is wrong with the ledger: the way from there was cut.
        quota_journal::Error::Damaged(damage) => Failure::general(damage.to_string())
            .hint("the daemon's log says whether it was its doing: try again"),
        error => unread(error),
    })?;
    building.finish()?;
    drop(progress);
    print(directory, &made, &session.output)
}

/// Says what is in a directory now.
pub(crate) fn print(directory: &Path, made: &BackedUp, output: &Output) -> Outcome {
    let (last, hash) = (made.last.sequence, made.last.hash.to_string());
    if output.is_structured() {
        return output.value(&json!({
            "directory": directory,
            "firstSequence": made.first_sequence,
            "lastSequence": last,
            "head": hash,
            "snapshots": made.snapshots,
        }));
    }
    output.line(format!(
        "{}: entries {} to {last}, snapshots: {}, head: {hash}",
        directory.display(),
        made.first_sequence,
        made.snapshots,
    ))
}
