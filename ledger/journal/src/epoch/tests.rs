use std::{fs, sync::Arc};

use proptest::prelude::*;

use super::*;
use crate::{Batch, Hash, disk::RealDisk, golden, simulation::SimDisk};
use quota_semantics::Timestamp;

/// Frames of batches of two entries each that do not compress, behind `position`, which advances.
fn frames(position: &mut Durable, batches: usize, length: usize) -> Vec<u8> {
    let mut frames = Vec::new();
    for _ in 0..batches {
        let first_sequence = position.sequence + 1;
        let mut payload = vec![0; length];
        let mut random = blake3::Hasher::new();
        random.update(&first_sequence.to_le_bytes());
        random.finalize_xof().fill(&mut payload);
        let batch = Batch { first_sequence, count: 2, time: Timestamp::EPOCH, payload };
        position.hash = frame::encode(&batch, &position.hash, false, &mut frames);
        position.sequence = batch.last_sequence();
    }
    frames
}

#[test]
fn sled_writes_what_is_put_little_more_than_once() {
    let directory = tempfile::tempdir().unwrap();
    let epoch = Epoch::new(directory.path(), Durable::NOTHING);
    let (mut position, mut put) = (Durable::NOTHING, 0);
    for _ in 0..16 {
        let before = position;
        let frames = frames(&mut position, 128, 8 * 1024);
        put += frames.len();
        epoch.put(&RealDisk, &before, &frames, &Throttle::default()).unwrap();
    }
    epoch.sync(&RealDisk).unwrap();
    // Its file is a log: rewritten pages are in it twice, until segments are reused.
    let length = fs::metadata(epoch.directory.join(DATABASE).join("db")).unwrap().len();
    let times = length as f64 / put as f64;
    assert!((1.0..1.3).contains(&times), "{times}");
}

/// Two blocks, and the keys of two more, as left by a process that is killed during an insert, or as seen by a
/// concurrent reader.
fn half_put(disk: &SimDisk) -> (Epoch, Durable) {
    let directory = Path::new("/epochs");
    disk.make_directory(directory).unwrap();
    let epoch = Epoch::new(directory, Durable::NOTHING);
    let mut end = Durable::NOTHING;
    epoch.put(disk, &Durable::NOTHING, &frames(&mut end, 100, 1000), &Throttle::default()).unwrap();
    let mut ahead = end;
    let places = blocks(&end, &frames(&mut ahead, 100, 1000), &Throttle::default()).unwrap();
    let places = places.into_iter().map(|(key, _)| (key, Vec::new()));
    epoch.with(disk, |database| database.insert(places.collect())).unwrap();
    (epoch, end)
}

#[test]
fn what_is_being_put_is_not_read() {
    let disk = SimDisk::new(1);
    let (epoch, end) = half_put(&disk);
    let mut next = 1;
    while next <= end.sequence {
        let chunk = epoch.chunk(&disk, next).unwrap();
        let last = chunk.behind(&chunk.before).unwrap().1;
        assert!((next..=end.sequence).contains(&last.sequence));
        next = last.sequence + 1;
    }
}

#[test]
fn a_place_without_its_value_is_damage_and_is_named() {
    let disk = SimDisk::new(1);
    let (epoch, end) = half_put(&disk);
    let missing = end.sequence + 1;
    for found in [epoch.chunk(&disk, missing).err(), epoch.verify(&disk, |_| {}).err()] {
        match found {
            Some(Error::Damaged(damage)) => assert_eq!(damage.sequence, Some(missing)),
            other => panic!("{other:?}"),
        }
    }
    // A later piece of a block, once other blocks follow.
    let block = block_key(1, 1).to_vec();
    epoch.with(&disk, |database| database.insert(vec![(block, Vec::new())])).unwrap();
    match epoch.verify(&disk, |_| {}) {
        Err(Error::Damaged(damage)) => assert_eq!(damage.sequence, Some(1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocks_of_another_size_are_read() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    disk.make_directory(Path::new("/epochs")).unwrap();
    let epoch = Epoch::new(Path::new("/epochs"), Durable::NOTHING);
    let (mut position, mut pairs, mut all) = (Durable::NOTHING, Vec::new(), Vec::new());
    // Smaller than those that are written.
    for _ in 0..40 {
        let before = position;
        let frames = frames(&mut position, 8, 1000);
        encode_blocks(&before, &frames, &mut pairs);
        all.extend(frames);
    }
    epoch.with(disk.as_ref(), |database| database.insert(pairs)).unwrap();
    let before = position;
    let more = frames(&mut position, 100, 1000);
    epoch.put(disk.as_ref(), &before, &more, &Throttle::default()).unwrap();
    all.extend(more);
    let mut read = Vec::new();
    let end = epoch.verify(disk.as_ref(), |frame| read.extend_from_slice(frame.bytes)).unwrap();
    assert_eq!(end, position);
    assert!(read == all);
}

#[test]
fn what_was_checked_at_a_start_is_not_kept_in_memory() {
    let disk = SimDisk::new(1);
    disk.make_directory(Path::new("/epochs")).unwrap();
    let epoch = Epoch::new(Path::new("/epochs"), Durable::NOTHING);
    let mut end = Durable::NOTHING;
    let first = frames(&mut end, 100, 1000);
    epoch.put(&disk, &Durable::NOTHING, &first, &Throttle::default()).unwrap();
    epoch.close_at(&disk, &end).unwrap();
    assert_eq!(epoch.reopen(&disk).unwrap(), Some(end));
    assert!(epoch.database.read().is_none());
    // Continues as if it had never been closed.
    let before = end;
    let second = frames(&mut end, 100, 1000);
    epoch.put(&disk, &before, &second, &Throttle::default()).unwrap();
    assert_eq!(epoch.verify(&disk, |_| {}).unwrap(), end);
}

/// A sealed epoch on the real disk, and its seal.
fn sealed(directory: &Path) -> (Epoch, Seal) {
    let epoch = Epoch::new(directory, Durable::NOTHING);
    let mut end = Durable::NOTHING;
    for _ in 0..4 {
        let before = end;
        let frames = frames(&mut end, 64, 8 * 1024);
        epoch.put(&RealDisk, &before, &frames, &Throttle::default()).unwrap();
    }
    let seal = epoch.seal(&RealDisk, &end, &Throttle::default()).unwrap();
    (epoch, seal)
}

fn flip(file: &Path, at: u64) {
    let mut bytes = fs::read(file).unwrap();
    bytes[usize::try_from(at).unwrap()] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn reading_a_sealed_epoch_changes_none_of_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let (epoch, seal) = sealed(directory.path());
    for _ in 0..4 {
        epoch.check(&RealDisk, &seal, |_| {}).unwrap();
        assert!(!epoch.is_copied());
        epoch.close();
        assert_eq!(epoch.difference(&RealDisk).unwrap(), None);
    }
}

#[test]
fn a_damaged_epoch_is_left_as_it_is_and_read_as_far_as_it_goes() {
    let directory = tempfile::tempdir().unwrap();
    let (epoch, seal) = sealed(directory.path());
    epoch.close();
    let file = epoch.directory().join(DATABASE).join("db");
    let at = fs::metadata(&file).unwrap().len() / 2;
    flip(&file, at);
    let before = fs::read(&file).unwrap();
    let epoch = Epoch::sealed(directory.path(), &seal);
    let mut read = 0;
    let error = epoch.check(&RealDisk, &seal, |_| read += 1).unwrap_err();
    let Error::Damaged(damage) = error else {
        panic!("{error}");
    };
    assert!(epoch.is_copied() && read > 0 && read < seal.batches);
    assert_eq!(damage.sequence, Some(2 * read + 1));
    assert_eq!(damage.through, Some(seal.last.sequence));
    let damage = epoch.difference(&RealDisk).unwrap().unwrap();
    assert_eq!((damage.file, damage.sequence), (file.clone(), Some(1)));
    assert_eq!(damage.offset.unwrap() / 65_536, at / 65_536);
    epoch.close();
    assert!(fs::read(&file).unwrap() == before);
    // Restoring the byte repairs it.
    flip(&file, at);
    epoch.check(&RealDisk, &seal, |_| {}).unwrap();
    assert!(!epoch.is_copied());
}

fn before(sequence: u64) -> Durable {
    Durable {
        sequence,
        hash: Hash::from(blake3::hash(b"before")),
        time: Timestamp::from_nanoseconds(5),
    }
}

#[test]
fn version_1_has_these_bytes() {
    let mut pairs = Vec::new();
    encode_blocks(&before(7), b"incompressible", &mut pairs);
    encode_blocks(&before(8), &[7; 100], &mut pairs);
    let bytes: Vec<u8> = pairs.into_iter().flat_map(|(k, v)| [k, v].concat()).collect();
    golden::check("blocks", &bytes);
}

proptest! {
    #[test]
    fn blocks_read_back(length in 1usize..40_000, random in any::<bool>()) {
        let mut state = 1u32;
        let frames: Vec<u8> = (0..length).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if random { (state >> 24) as u8 } else { 3 }
        }).collect();
        let mut pairs = Vec::new();
        encode_blocks(&before(7), &frames, &mut pairs);
        prop_assert!(pairs.iter().all(|(_, value)| value.len() <= VALUE_BYTES));
        let header = parse_header(&pairs[0].1).unwrap();
        prop_assert_eq!((header.pieces, header.before), (pairs.len(), before(7)));
        let mut read = Vec::new();
        decode(&header, &pairs, &mut read).unwrap();
        prop_assert!(read == frames);
        pairs.pop();
        prop_assert!(decode(&header, &pairs, &mut read).is_err());
    }

    #[test]
    fn arbitrary_values_never_panic(value in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(header) = parse_header(&value) {
            let pairs = [(block_key(header.before.sequence.wrapping_add(1), 0).to_vec(), value)];
            let _ = decode(&header, &pairs, &mut Vec::new());
        }
    }
}
