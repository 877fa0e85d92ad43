//! `ledger restore`: a data directory from a backup, once the backup was verified to be complete.

use std::{
    io::{self, BufReader, BufWriter},
    path::Path,
    sync::Arc,
    thread,
};

use quota_journal::{BackedUp, Offline, disk::RealDisk};

use super::{building::Building, checkpoints::Claims, open, unread, verify};
use crate::{
    args::{Jobs, LedgerPath},
    failure::{Exit, Failure, Outcome},
    output::Output,
    progress::Progress,
};

/// Verifies the backup, and then copies it; each batch is verified once more.
pub(super) fn run(
    backup: &Path,
    data_dir: &Path,
    claims: Claims,
    jobs: &Jobs,
    output: &Output,
) -> Outcome {
    let building = Building::begin(data_dir)?;
    let place = LedgerPath { data_dir: backup.to_path_buf(), archive: None };
    verify::refuse_damage(&verify::check(&place, claims, jobs)?)?;
    let made = copy(&place, building.path())?;
    building.hand_over();
    building.finish_copy(&made, output)
}

/// Copies the ledger through a pipe, as from a daemon.
fn copy(from: &LedgerPath, to: &Path) -> Outcome<BackedUp> {
    let Offline::Data(data) = open(from)? else {
        return Err(Failure::new(Exit::NotFound, "it is an archive, no backup")
            .about(from.data_dir.display()));
    };
    let (input, output) = io::pipe()?;
    let (written, read) = thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let mut output = BufWriter::new(output);
            quota_journal::write_backup(data.reader(), &mut output)
        });
        let progress = Progress::counting_bytes("restoring");
        let mut input = BufReader::new(progress.read(input));
        let read = quota_journal::read_backup(&mut input, &from.data_dir, Arc::new(RealDisk), to);
        drop(input);
        (writing.join(), read)
    });
    match (written, read) {
        (_, Ok(made)) => Ok(made),
        // Why it could not be written comes first, unless that is because it was not read.
        (Ok(Err(error @ quota_journal::Error::Damaged(_))), Err(_)) | (_, Err(error)) => {
            Err(unread(error))
        }
    }
}
