//! What is done to the files of a ledger.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{ledger::files, support::random::Random};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Ledger,
    Anchor,
    LogSegment,
    Seal,
    Closed,
    SealedDb,
    SealedConf,
    SealedSnap,
    LiveDb,
    LiveConf,
    LiveSnap,
    Snapshot,
    Archive,
    Checkpoints,
    /// Several at once.
    Many,
}

impl Kind {
    /// Those of one file.
    pub(crate) const ALL: [Self; 13] = [
        Self::Ledger,
        Self::Anchor,
        Self::LogSegment,
        Self::Seal,
        Self::Closed,
        Self::SealedDb,
        Self::SealedConf,
        Self::SealedSnap,
        Self::LiveDb,
        Self::LiveConf,
        Self::LiveSnap,
        Self::Snapshot,
        Self::Archive,
    ];
}

/// The kind of a file; none, if it holds nothing of the ledger.
pub(crate) fn kind(directory: &Path, path: &Path) -> Option<Kind> {
    let name = path.file_name()?.to_str()?;
    let text = path.to_str()?;
    if text.contains("/sled/") {
        let epoch = directory.join(path).parent()?.parent()?.to_path_buf();
        let sealed = epoch.join("SEAL").exists();
        return match (name, sealed) {
            ("db", true) => Some(Kind::SealedDb),
            ("db", false) => Some(Kind::LiveDb),
            ("conf", true) => Some(Kind::SealedConf),
            ("conf", false) => Some(Kind::LiveConf),
            (_, true) => Some(Kind::SealedSnap),
            (_, false) => Some(Kind::LiveSnap),
        };
    }
    match name {
        "LEDGER" => Some(Kind::Ledger),
        "anchor" => Some(Kind::Anchor),
        "SEAL" => Some(Kind::Seal),
        "CLOSED" => Some(Kind::Closed),
        "checkpoints" => Some(Kind::Checkpoints),
        _ if name.ends_with(".log") => Some(Kind::LogSegment),
        _ if name.ends_with(".snapshot") => Some(Kind::Snapshot),
        _ if name.ends_with(".qla") => Some(Kind::Archive),
        _ => None,
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mutation {
    Flip,
    Cut,
    Zero,
    SwapBlocks,
    SwapFiles,
    Append,
    Duplicate,
    RollBack,
    Remove,
    RollBackSet,
}

/// What can be done to one file.
pub(crate) const SINGLE: [Mutation; 9] = [
    Mutation::Flip,
    Mutation::Cut,
    Mutation::Zero,
    Mutation::SwapBlocks,
    Mutation::SwapFiles,
    Mutation::Append,
    Mutation::Duplicate,
    Mutation::RollBack,
    Mutation::Remove,
];

/// Does it to a file; tells what was done, unless that changes nothing or cannot be.
pub(crate) fn apply(
    mutation: Mutation,
    directory: &Path,
    path: &Path,
    earlier: &[PathBuf],
    random: &mut Random,
) -> Option<String> {
    let file = directory.join(path);
    let before = fs::read(&file).unwrap();
    // Most often where something is written.
    let written = before.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    let bound = if random.once_in(8) { before.len() } else { written };
    let mut after = before.clone();
    let change = match mutation {
        Mutation::Flip => {
            let at = random.index(bound);
            *after.get_mut(at)? ^= 1 << random.index(8);
            format!("flipped a bit of byte {at}")
        }
        Mutation::Cut => {
            after.truncate(random.index(bound));
            format!("cut to {}", after.len())
        }
        Mutation::Zero => {
            let at = random.index(bound);
            let end = before.len().min(at + 1 + random.index(600));
            after[at..end].fill(0);
            format!("zeroed {at}..{end}")
        }
        Mutation::SwapBlocks => {
            let size = 1 + random.index(512.min(written / 2));
            let last = written.checked_sub(2 * size)?;
            let first = random.index(last + 1);
            let second = first + size + random.index(last - first + 1);
            let (left, right) = after.split_at_mut(second);
            left[first..first + size].swap_with_slice(&mut right[..size]);
            format!("swapped {size} bytes at {first} and {second}")
        }
        Mutation::SwapFiles => {
            let own = kind(directory, path);
            let mut others = files(directory);
            others.retain(|other| other != path && kind(directory, other) == own);
            let other = directory.join(others.get(random.index(others.len()))?);
            after = fs::read(&other).unwrap();
            if after == before {
                return None;
            }
            fs::write(&other, &before).unwrap();
            format!("swapped with {}", other.display())
        }
        Mutation::Append => {
            let more = 1 + random.index(300);
            after.extend((0..more).map(|_| random.next().to_le_bytes()[0]));
            format!("appended {more} bytes")
        }
        Mutation::Duplicate => {
            let other = neighbour(&file, random)?;
            fs::write(&other, before).unwrap();
            return Some(format!("copied to {}", other.display()));
        }
        Mutation::RollBack => {
            let mut copies: Vec<PathBuf> = earlier.iter().map(|copy| copy.join(path)).collect();
            copies.retain(|copy| fs::read(copy).is_ok_and(|old| old != before));
            let copy = copies.get(random.index(copies.len()))?;
            after = fs::read(copy).unwrap();
            format!("rolled back to {}", copy.display())
        }
        Mutation::Remove => {
            fs::remove_file(&file).unwrap();
            return Some("removed".to_owned());
        }
        Mutation::RollBackSet => return None,
    };
    if after == before {
        return None;
    }
    fs::write(&file, after).unwrap();
    Some(change)
}

/// A path beside a file whose first number is another one, and that is free.
fn neighbour(file: &Path, random: &mut Random) -> Option<PathBuf> {
    let name = file.file_name()?.to_str()?;
    let (digits, rest) = name.split_at_checked(20)?;
    let number: u64 = digits.parse().ok()?;
    let other = (number + 1 + random.next() % 60).saturating_sub(30);
    let other = file.with_file_name(format!("{other:020}{rest}"));
    (!other.exists()).then_some(other)
}

/// Takes some of all files back to an earlier copy, those away that were not there then.
pub(crate) fn roll_back_set(directory: &Path, earlier: &Path, random: &mut Random) -> String {
    let mut all = files(directory);
    all.extend(files(earlier));
    all.sort();
    all.dedup();
    all.retain(|path| kind(directory, path).is_some() && !path.ends_with("checkpoints"));
    // By parts of the ledger, or file by file.
    let parts = ["log", "epochs", "snapshots", "anchor", "LEDGER", "archive"];
    let by_part = random.once_in(2);
    let chosen: Vec<bool> = parts.iter().map(|_| random.once_in(2)).collect();
    let mut paths = Vec::new();
    for path in all {
        let text = path.to_str().unwrap();
        let taken = match by_part {
            true => parts.iter().zip(&chosen).any(|(part, taken)| *taken && text.contains(part)),
            false => random.once_in(3),
        };
        if !taken {
            continue;
        }
        let (old, new) = (earlier.join(&path), directory.join(&path));
        match fs::read(&old) {
            Ok(bytes) => {
                fs::create_dir_all(new.parent().unwrap()).unwrap();
                fs::write(&new, bytes).unwrap();
            }
            Err(_) => fs::remove_file(&new).unwrap(),
        }
        paths.push(text.to_owned());
    }
    format!("rolled back to {}: {}", earlier.display(), paths.join(" "))
}
