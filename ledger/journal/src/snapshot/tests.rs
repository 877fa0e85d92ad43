use super::*;
use crate::{
    disk::RealDisk,
    golden,
    simulation::{Faults, SimDisk},
};
use quota_semantics::Timestamp;

fn position(sequence: u64) -> Durable {
    Durable {
        sequence,
        hash: Hash::from(blake3::hash(&sequence.to_le_bytes())),
        time: Timestamp::from_nanoseconds(1_700_000_000_000_000_000),
    }
}

fn snapshots(directory: &Path) -> Snapshots {
    let snapshots = Snapshots::new(Arc::new(RealDisk), directory, Throttle::default());
    std::fs::create_dir_all(&snapshots.directory).unwrap();
    snapshots
}

fn simulated() -> (SimDisk, Snapshots) {
    let disk = SimDisk::new(1);
    disk.create_directory(Path::new("/data/snapshots")).unwrap();
    let snapshots = Snapshots::new(Arc::new(disk.clone()), Path::new("/data"), Throttle::default());
    (disk, snapshots)
}

fn save(snapshots: &Snapshots, sequence: u64, content: &[u8]) -> SnapshotInfo {
    let mut writer = snapshots.create(position(sequence)).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

#[test]
fn version_1_has_these_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let info = save(&snapshots(directory.path()), 12, b"state");
    golden::check("snapshot", &std::fs::read(info.path).unwrap());
}

#[test]
fn a_long_content_is_streamed_and_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let snapshots = snapshots(directory.path());
    let content: Vec<u8> = (0..3 * BUFFER_BYTES + 17).map(|i| (i % 251) as u8).collect();
    let info = save(&snapshots, 12, &content);
    assert_eq!(info.bytes, content.len() as u64);
    assert_eq!(snapshots.list().unwrap(), (vec![info.clone()], vec![]));
    assert_eq!(snapshots.verify(&info).unwrap(), None);
    let mut read = Vec::new();
    let mut reader = snapshots.open(&info).unwrap();
    reader.read_to_end(&mut read).unwrap();
    assert!(read == content);
}

#[test]
fn a_long_content_is_synced_on_the_way_and_a_failure_of_that_is_told() {
    let (disk, snapshots) = simulated();
    let mut writer = snapshots.create(position(3)).unwrap();
    disk.inject(Faults { fail_sync_at: Some(0), ..Faults::default() });
    let step = usize::try_from(STEP_BYTES).unwrap();
    writer.write_all(&vec![7; step - 1]).unwrap();
    writer.write_all(&[7; 2]).unwrap_err();
    assert_eq!(disk.fired().failed_syncs, 1);
    drop(writer);
    assert_eq!(snapshots.list().unwrap(), (vec![], vec![]));
}

#[test]
fn an_unfinished_snapshot_is_not_listed() {
    let directory = tempfile::tempdir().unwrap();
    let snapshots = snapshots(directory.path());
    let mut writer = snapshots.create(position(3)).unwrap();
    writer.write_all(b"half of it").unwrap();
    writer.flush().unwrap();
    drop(writer);
    assert_eq!(snapshots.list().unwrap(), (vec![], vec![]));
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let snapshots = snapshots(directory.path());
    let info = save(&snapshots, 12, b"state");
    let right = std::fs::read(&info.path).unwrap();
    let is_right = || {
        let (found, damaged) = snapshots.list().unwrap();
        damaged.is_empty()
            && found.len() == 1
            && found[0].position == info.position
            && snapshots.verify(&found[0]).unwrap().is_none()
    };
    assert!(is_right());
    for bit in 0..right.len() * 8 {
        let mut wrong = right.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&info.path, wrong).unwrap();
        assert!(!is_right(), "bit {bit}");
    }
    for length in 0..right.len() {
        std::fs::write(&info.path, &right[..length]).unwrap();
        assert!(!is_right(), "length {length}");
    }
}

#[test]
fn thinning_keeps_the_newest_and_a_few_of_the_older_ones() {
    assert_eq!(surplus(&[], 2), Vec::<u64>::new());
    assert_eq!(surplus(&[7], 2), Vec::<u64>::new());
    let all: Vec<u64> = (1..=1000).map(|i| i * 1000).collect();
    let gone = surplus(&all, 2);
    let kept: Vec<u64> = all.iter().copied().filter(|s| !gone.contains(s)).collect();
    assert_eq!(kept[kept.len() - 2..], [999_000, 1_000_000]);
    assert_eq!(kept[0], 1000, "the oldest stays: it is the base of what is kept");
    assert!((5..15).contains(&kept.len()), "{kept:?}");
    assert_eq!(surplus(&kept, 2), Vec::<u64>::new(), "thinning again changes nothing");
}

#[test]
fn a_snapshot_takes_at_most_half_of_the_room_and_gives_back_what_it_took() {
    let (disk, snapshots) = simulated();
    let used = disk.used();
    let room = 6 * STEP_BYTES;
    disk.inject(Faults { capacity: Some(used + room), ..Faults::default() });
    let mut writer = snapshots.create(position(12)).unwrap();
    let refused = writer.write_all(&vec![7; room as usize]).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    assert_eq!(disk.fired().no_space, 0);
    drop(writer);
    assert_eq!(disk.used(), used);
    save(&snapshots, 13, &vec![7; 2 * STEP_BYTES as usize]);
}
