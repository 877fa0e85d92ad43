//! `ledger`: a data directory or an archive, read without a daemon and without changing it.

mod building;
mod checkpoints;
mod dump;
mod export;
mod import;
mod progress;
mod replay;
mod restore;
mod stat;
mod verify;
mod view;

pub use import::import_from;

use std::{io::ErrorKind, path::Path, sync::Arc};

use quota_ledger::{
    codec,
    event::Entry,
    journal::{self, BatchRef, Offline, disk::RealDisk},
    replay::Error,
};

use checkpoints::Claims;

pub(super) use building::Building;

use super::{
    args::{Ledger, Place, Signed},
    failure::{Exit, Failure, Outcome},
    output::Output,
    session::Scope,
};

/// Does what the command line asks.
pub(crate) fn run(command: &Ledger, output: &Output, scope: &Scope) -> Outcome {
    match command {
        Ledger::Verify {
            place,
            signed,
            jobs,
        } => verify::run(place, claims(signed)?, jobs, output),
        Ledger::Restore {
            backup,
            data_dir,
            signed,
            jobs,
        } => restore::run(backup, data_dir, claims(signed)?, jobs, output),
        Ledger::Keygen { file, origin } => checkpoints::keygen(file, origin, output),
        Ledger::Replay { place, until } => replay::run(&open(place)?, output, *until),
        Ledger::Dump { place, from, to } => dump::run(&open(place)?, scope.filter(), *from, *to),
        Ledger::Stat { place } => stat::run(&open(place)?, output),
        Ledger::Export { file, place } => export::run(&open(place)?, file),
        Ledger::Import { file, data_dir } => import::run(file, data_dir, output),
    }
}

fn claims(signed: &Signed) -> Outcome<Claims> {
    match (&signed.checkpoint, &signed.public_key) {
        (Some(file), Some(key)) => Claims::load(file, key),
        _ => Ok(Claims::default()),
    }
}

fn open(place: &Place) -> Outcome<Offline> {
    Offline::open(
        Arc::new(RealDisk),
        &place.data_dir,
        place.archive.as_deref(),
    )
    .map_err(|error| unopened(error, &place.data_dir))
}

/// The failure that an error at opening means.
fn unopened(error: journal::Error, directory: &Path) -> Failure {
    match &error {
        journal::Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            Failure::new(Exit::NotFound, "neither a data directory nor an archive")
                .about(directory.display())
                .hint("--data-dir says where the ledger is")
        }
        _ => unread(error),
    }
}

/// The failure that an error of the journal means.
pub(super) fn unread(error: journal::Error) -> Failure {
    match &error {
        journal::Error::Damaged(_) => Failure::new(Exit::Damaged, error.to_string()),
        journal::Error::Locked { .. } => Failure::general(error.to_string())
            .hint("stop the daemon first, or ask it: get, describe, watch"),
        journal::Error::Compacted { .. } => {
            Failure::general(error.to_string()).hint("--archive says where compacted entries are")
        }
        _ => Failure::general(error.to_string()),
    }
}

/// The failure that an error of a replay means.
fn unfolded(error: Error) -> Failure {
    match error {
        Error::Journal(error) => unread(error),
        Error::Entries { .. } | Error::Snapshot { .. } => {
            Failure::new(Exit::Damaged, format!("ledger damaged: {error}"))
        }
    }
}

/// Reads the entries `from..=to`, in order.
fn each_entry(
    ledger: &Offline,
    from: u64,
    to: u64,
    mut act: impl FnMut(&Entry) -> Outcome,
) -> Outcome {
    let mut batches = ledger.batches(from);
    while let Some(batch) = batches.next_batch() {
        let batch = batch.map_err(unread)?;
        if batch.first_sequence > to {
            break;
        }
        let wanted = entries(&batch)?.into_iter();
        for entry in wanted.filter(|entry| (from..=to).contains(&entry.sequence)) {
            act(&entry)?;
        }
    }
    Ok(())
}

/// The entries of a batch.
fn entries(batch: &BatchRef<'_>) -> Outcome<Vec<Entry>> {
    decoded(batch.first_sequence, batch.count, batch.payload)
}

fn decoded(first: u64, count: u32, payload: &[u8]) -> Outcome<Vec<Entry>> {
    codec::decode_entries(first, count, payload)
        .map_err(|source| unfolded(Error::Entries { first, source }))
}
