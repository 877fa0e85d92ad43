//! Every input that the fuzzers keep, through its target, without a fuzzer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

#[path = "../fuzz/src/lib.rs"]
#[allow(unreachable_pub, missing_docs, reason = "a crate of its own, included")]
mod fuzz;

/// Bounds of the whole corpus: every checkout carries it.
const FILES_MAX: usize = 200;
const BYTES_MAX: u64 = 300 * 1024;

/// Names the input that a panic comes from.
struct Running<'a>(&'a Path);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input is {}", self.0.display());
        }
    }
}

fn replay(name: &str) {
    let (_, run) = fuzz::TARGETS.iter().find(|(target, _)| *target == name).unwrap();
    let mut count = 0;
    for input in inputs(name) {
        let _running = Running(&input.0);
        run(&input.1);
        count += 1;
    }
    assert!(count > 0, "{name} has no corpus");
}

fn inputs(name: &str) -> impl Iterator<Item = (std::path::PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut paths: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| {
        let bytes = fs::read(&path).unwrap();
        (path, bytes)
    })
}

macro_rules! replays {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            replay(stringify!($target));
        })*

        #[test]
        fn every_target_is_replayed_and_the_corpus_is_small() {
            let names: Vec<_> = fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [$(stringify!($target)),*]);
            let all: Vec<_> = names.iter().flat_map(|name| inputs(name)).collect();
            assert!(all.len() <= FILES_MAX, "{} files", all.len());
            let bytes: u64 = all.iter().map(|(_, bytes)| bytes.len() as u64).sum();
            assert!(bytes <= BYTES_MAX, "{bytes} bytes");
        }
    };
}

replays! {
    admission audit checkpoint config entries events fold http import journal kube listing quantity snapshot
}

/// A snapshot with right hashes may hold anything: its tables are checked when it is read.
#[test]
fn a_state_with_any_byte_changed_is_refused_or_can_be_folded_on() {
    let (mut refused, mut read) = (0, 0);
    for (path, bytes) in inputs("snapshot") {
        let _running = Running(&path);
        for at in 0..bytes.len() {
            for other in [0, 1, 2, bytes[at].wrapping_add(1), bytes[at] ^ 0x80, 255] {
                let mut changed = bytes.clone();
                changed[at] = other;
                match quota_core::state::State::read(&mut changed.as_slice()) {
                    Ok(_) => read += 1,
                    Err(_) => refused += 1,
                }
                fuzz::snapshot::run(&changed);
            }
        }
    }
    assert!(refused > 0 && read > 0, "{refused} refused, {read} read");
}
