//! The choice of the snapshot to begin with: the newest that is valid and agrees with the chain.

use super::super::{
    Damage, Durable, Error, SnapshotInfo, reader::Source, snapshot::DIRECTORY, store::Store,
};

/// The newest valid snapshot of less than `before` entries, and the damage to newer ones and to those with unreadable
/// headers.
pub(in super::super) fn choose(
    store: &Store,
    before: u64,
) -> Result<(Option<SnapshotInfo>, Vec<Damage>), Error> {
    let durable = store.durable();
    let (found, mut damaged) = store.snapshots.list()?;
    for info in found.into_iter().rev() {
        let sequence = info.position.sequence;
        if sequence >= before {
            continue;
        }
        if sequence > durable.sequence {
            // The snapshot was made of durable entries: they are lost.
            let why = format!(
                "the ledger ends at sequence {}, but this snapshot was taken of {sequence}",
                durable.sequence
            );
            return Err(Error::Damaged(
                Damage::new(info.path, why).at_sequence(durable.sequence.saturating_add(1)),
            ));
        }
        if sequence < store.base_position().sequence {
            continue;
        }
        let in_chain = match position(store, sequence) {
            Err(Error::Damaged(damage)) if store.options.start_with_damage => {
                let why = format!("the chain there cannot be read: {damage}");
                damaged.push(Damage::new(info.path, why));
                continue;
            }
            found => found?,
        };
        if in_chain.is_none_or(|found| found != info.position) {
            let why = format!("the chain does not have its hash at sequence {sequence}");
            damaged.push(Damage::new(info.path, why));
            continue;
        }
        if let Some(damage) = store.snapshots.verify(&info)? {
            damaged.push(damage);
            continue;
        }
        store.snapshots.sync(&info)?;
        return Ok((Some(info), damaged));
    }
    if store.first_sequence() > 1 {
        let why = format!(
            "no snapshot can be used, and the entries before {} are not kept",
            store.first_sequence()
        );
        return Err(Error::Damaged(
            Damage::new(store.directory.join(DIRECTORY), why).at_sequence(1),
        ));
    }
    Ok((None, damaged))
}

/// The chain at a sequence, if a batch ends there.
fn position(store: &Store, sequence: u64) -> Result<Option<Durable>, Error> {
    let positions = [store.base_position(), store.durable()];
    if let Some(position) = positions.iter().find(|position| position.sequence == sequence) {
        return Ok(Some(*position));
    }
    store.chunk(sequence)?.position_at(sequence)
}
