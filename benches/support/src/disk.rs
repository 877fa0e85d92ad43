//! What the disk alone takes.

use std::{
    fs::{File, metadata, read_to_string},
    io::Write as _,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::Path,
    time::{Duration, Instant},
};

const BLOCK: usize = 4096;

/// Median time of writing 4 KiB and fdatasync, in microseconds, into a file of zeros: nothing but data changes.
pub fn fdatasync_us(directory: &Path, span: Duration) -> f64 {
    let path = directory.join("fdatasync");
    let blocks = 4096;
    let mut file = File::create_new(&path).expect("the directory can be written to");
    let zeros = vec![0; BLOCK * blocks];
    file.write_all(&zeros).expect("there is room");
    file.sync_all().expect("the disk works");
    let mut times = Vec::new();
    let end = Instant::now() + span;
    let mut at = 0;
    while Instant::now() < end {
        let begin = Instant::now();
        file.write_all_at(&[1; BLOCK], (at * BLOCK) as u64).expect("there is room");
        file.sync_data().expect("the disk works");
        times.push(begin.elapsed().as_secs_f64() * 1e6);
        at = (at + 1) % blocks;
    }
    std::fs::remove_file(&path).expect("it is there");
    super::measured::median(&mut times)
}

/// Bytes of all files below a directory, as the file system has allotted them.
pub fn allotted(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => allotted(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            // A file that went away meanwhile takes nothing.
            Err(_) => 0,
        })
        .sum()
}

/// Bytes that were written to the device below a directory, by whomever; none where Linux does not tell.
pub fn device_written(directory: &Path) -> Option<u64> {
    let device = metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let sectors: u64 = stat.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * 512)
}
