//! What only signed checkpoints tell, and checkpoints that were tampered with, by the real `quotactl`.

use std::{fs, path::Path, process::Command};

use super::{
    ledger::{ARCHIVE, CHECKPOINTS, DATA, Ledger, PUBLIC_KEY, copy_directory},
    mutation::{Mutation, apply},
    support::{in_memory, number, programs::quotactl, random::Random},
};

/// Checks the ledger in a directory, with the checkpoints in another one or without any.
fn verify(directory: &Path, checkpoints: Option<&Path>) -> (Option<i32>, String) {
    let mut command = Command::new(quotactl());
    command.env_clear().args(["ledger", "verify", "--data-dir"]);
    command.arg(directory.join(DATA));
    command.arg("--archive").arg(directory.join(ARCHIVE));
    if let Some(place) = checkpoints {
        command.arg("--checkpoint").arg(place.join(CHECKPOINTS));
        command.arg("--public-key").arg(place.join(PUBLIC_KEY));
    }
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_ledger_that_was_rolled_back_as_a_whole_is_told_by_its_checkpoints() {
    for clean in [true, false] {
        let ledger = Ledger::new(clean);
        let now = ledger.directory.as_path();
        let (code, said) = verify(now, Some(now));
        assert_eq!(code, Some(0), "{said}");
        for earlier in &ledger.earlier {
            let (code, said) = verify(earlier, None);
            assert_eq!(code, Some(0), "it is whole in itself: {said}");
            let (code, said) = verify(earlier, Some(earlier));
            assert_eq!(code, Some(0), "{said}");
            let (code, said) = verify(earlier, Some(now));
            assert_eq!(code, Some(4), "{said}");
            assert!(said.contains("the ledger ends with sequence"), "{said}");
        }
    }
}

/// Whether the file of checkpoints ends with the signature of one.
fn ends_whole(directory: &Path) -> bool {
    const SIGNATURE_BYTES: usize = 4 + 64;
    let text = fs::read_to_string(directory.join(CHECKPOINTS)).unwrap();
    let last = text.strip_suffix('\n').unwrap_or_default().trim_end();
    let last = last.lines().last().unwrap_or_default();
    let encoded = last.rsplit_once(' ').map_or("", |(_, encoded)| encoded);
    last.starts_with("\u{2014} ") && encoded.len() == SIGNATURE_BYTES.div_ceil(3) * 4
}

#[test]
fn checkpoints_that_were_changed_prove_nothing() {
    let ledger = Ledger::new(true);
    let mut random = Random::new(number("QUOTAD_TAMPER_SEED").unwrap_or(1), "tamper");
    let cases = number("QUOTAD_TAMPER_CASES").unwrap_or(super::CASES).div_ceil(2);
    // What is there anew is not what was signed; a checkpoint that is not there may have been there or not.
    let shortened = [Mutation::Cut, Mutation::RollBack];
    let mutations = [
        Mutation::Flip,
        Mutation::Zero,
        Mutation::SwapBlocks,
        Mutation::Append,
        Mutation::Cut,
        Mutation::RollBack,
        Mutation::Remove,
    ];
    for mutation in mutations {
        for _ in 0..cases {
            let home = in_memory();
            let changed = home.path().join("changed");
            copy_directory(&ledger.directory, &changed);
            let path = Path::new(CHECKPOINTS);
            let change = apply(mutation, &changed, path, &ledger.earlier, &mut random).unwrap();
            let (code, said) = verify(&changed, Some(&changed));
            let place = changed.join(CHECKPOINTS).display().to_string();
            let reported = said.contains(&place);
            match code {
                // What is left are whole checkpoints.
                Some(0) => assert!(
                    shortened.contains(&mutation) && ends_whole(&changed),
                    "{change} was accepted: {said}"
                ),
                Some(4) => assert!(reported, "{change}: {said}"),
                code => panic!("{change}: {code:?} {said}"),
            }
        }
    }
    assert!(fs::read_to_string(ledger.directory.join(CHECKPOINTS)).is_ok());
}
