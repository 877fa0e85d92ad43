//! A ledger export that is imported again.

use std::{path::Path, sync::Arc};

use quota_journal::{Options, simulation::SimDisk};
use quotactl::import_from;

/// Imports the input. An accepted import is a complete ledger with the declared end.
pub fn run(data: &[u8]) {
    let disk = SimDisk::new(1);
    let directory = Path::new("/data");
    let options = Options { segment_bytes: 64 << 10, ..Options::default() };
    match import_from(data, Arc::new(disk.clone()), directory, options) {
        Err(why) => assert!(!why.is_empty()),
        Ok((last, hash)) => {
            let verified = quota_journal::verify(Arc::new(disk), directory, None, 1, &()).unwrap();
            assert_eq!(verified.damages, []);
            assert_eq!(verified.entries, last);
            let end = verified.last.map_or_else(
                || quota_journal::Hash::GENESIS.to_string(),
                |end| end.hash.to_string(),
            );
            assert_eq!(end, hash);
        }
    }
}
