//! `ledger repair`: rebuilds damaged epochs from an archive, a backup or a copy.

use std::{path::Path, sync::Arc};

use quota_journal::{Remade, Repair, disk::RealDisk};
use serde_json::json;

use super::{building::hand_over, damage_as_json, unopened};
use crate::{
    failure::{Exit, Failure, Outcome},
    output::{Output, note},
};

/// Repairs a data directory; fails with [`Exit::Damaged`] if damage is left.
pub(super) fn run(data_dir: &Path, from: Option<&Path>, output: &Output) -> Outcome {
    let repair = quota_journal::repair(Arc::new(RealDisk), data_dir, from)
        .map_err(|error| unopened(error, data_dir))?;
    hand_over(data_dir, &[data_dir]);
    match output.is_structured() {
        true => output.value(&as_json(&repair))?,
        false => print(&repair, output)?,
    }
    for damage in &repair.left {
        note(format!("error: not repaired: {damage}"));
    }
    if repair.left.is_empty() {
        return Ok(());
    }
    let hint = match from {
        Some(from) => format!(
            "hint: {} does not hold these entries; try another archive or backup",
            from.display()
        ),
        None => "hint: --from ARCHIVE|BACKUP says where they are".to_owned(),
    };
    note(hint);
    Err(Failure::silent(Exit::Damaged))
}

fn print(repair: &Repair, output: &Output) -> Outcome {
    if repair.made.is_empty() && repair.left.is_empty() {
        return output.line("no sealed epoch is damaged; `ledger verify` checks everything else");
    }
    repair.made.iter().try_for_each(|made| {
        let Remade { first_sequence, last_sequence, from, aside, .. } = made;
        let aside: Vec<_> = aside.iter().map(|path| path.display().to_string()).collect();
        output.line(format!(
            "entries {first_sequence} to {last_sequence}: made again from {}; set aside: {}",
            from.display(),
            match aside.is_empty() {
                true => "nothing".to_owned(),
                false => aside.join(", "),
            }
        ))
    })
}

fn as_json(repair: &Repair) -> serde_json::Value {
    let made = |made: &Remade| {
        json!({
            "firstSequence": made.first_sequence,
            "lastSequence": made.last_sequence,
            "damage": damage_as_json(&made.damage),
            "from": made.from,
            "setAside": made.aside,
        })
    };
    json!({
        "repaired": repair.made.iter().map(made).collect::<Vec<_>>(),
        "left": repair.left.iter().map(damage_as_json).collect::<Vec<_>>(),
    })
}
