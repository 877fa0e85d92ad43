//! The settings that a seed draws: sizes, and probabilities of faults.
//!
//! Each seed has its own mix of faults, without many of the kinds: an error that many faults together hide is shown by
//! few.

use std::path::PathBuf;

use quota_core::decide::Policy;
use quota_journal::{Options, Retention};
use quota_semantics::Span;

use quota_testkit::simulation::Random;

pub(crate) const DIRECTORY: &str = "/var/ledger";
const ARCHIVE: &str = "/srv/archive";

/// Probabilities are in a thousand, per step unless stated otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) steps: u64,
    pub(crate) clients: u64,
    pub(crate) namespaces: u64,
    pub(crate) max_entries: usize,
    pub(crate) queue: usize,
    pub(crate) hard: u64,
    pub(crate) ttl: i64,
    pub(crate) policy: Policy,
    pub(crate) options: Options,
    pub(crate) keep: usize,
    pub(crate) retention: Retention,
    pub(crate) snapshot: u64,
    pub(crate) compact: u64,
    pub(crate) work: u64,
    /// Mean number of the disk's calls between crashes; 0: none.
    pub(crate) crash_every: u64,
    /// The fraction of crashes that are power losses.
    pub(crate) power_loss: u64,
    /// Per start.
    pub(crate) fail_sync: u64,
    pub(crate) fail_write: u64,
    pub(crate) no_space: u64,
    pub(crate) flip: u64,
    pub(crate) stop: u64,
    pub(crate) clock_jump: u64,
    /// The fraction of answers that are lost on the way.
    pub(crate) lost_answer: u64,
    pub(crate) stream: StreamFaults,
}

/// Probabilities in a thousand: of deliveries, then of steps.
#[derive(Clone, Debug)]
pub(crate) struct StreamFaults {
    pub(crate) duplicate: u64,
    pub(crate) reorder: u64,
    pub(crate) drop: u64,
    pub(crate) poison: u64,
    pub(crate) disconnect: u64,
    pub(crate) purge: u64,
    pub(crate) middle: u64,
    pub(crate) tail: u64,
    pub(crate) recreate: u64,
}

impl Settings {
    pub(crate) fn draw(random: &mut Random) -> Self {
        // A kind of fault is active in half of the seeds.
        let mut sometimes = |choices: &[u64]| match random.chance(500) {
            true => random.one_of(choices),
            false => 0,
        };
        let stream = StreamFaults {
            duplicate: sometimes(&[20, 100, 300]),
            reorder: sometimes(&[20, 100]),
            drop: sometimes(&[20, 100]),
            poison: sometimes(&[50, 200]),
            disconnect: sometimes(&[2, 10]),
            purge: sometimes(&[1, 5]),
            middle: sometimes(&[1, 5]),
            tail: sometimes(&[1, 5]),
            recreate: sometimes(&[1, 4]),
        };
        let (fail_sync, fail_write) = (sometimes(&[100, 300]), sometimes(&[100, 200]));
        let (no_space, flip) = (sometimes(&[100, 300]), sometimes(&[100, 400]));
        let (stop, clock_jump) = (sometimes(&[3, 10]), sometimes(&[5, 20]));
        let lost_answer = sometimes(&[50, 300]);
        let retention = Retention {
            max_age: random.chance(600).then(|| Span::from_seconds(random.one_of(&[0, 20, 200]))),
            max_bytes: random.chance(400).then(|| random.one_of(&[500, 4000])),
        };
        Self {
            steps: random.one_of(&[150, 300, 500]),
            clients: 1 + random.below(4),
            namespaces: 1 + random.below(2),
            max_entries: random.one_of(&[1, 2, 8, 1000]),
            queue: random.one_of(&[2, 8, 64]),
            hard: random.one_of(&[3, 10, 30]),
            ttl: random.one_of(&[5, 30, 120]),
            policy: Policy {
                max_hold: Span::from_seconds(random.one_of(&[20, 300])),
                max_pending: random.one_of(&[5, 1000]),
                max_pending_per_namespace: random.one_of(&[4, 1000]),
                ..Policy::default()
            },
            options: Options {
                segment_bytes: random.one_of(&[600, 2048, 8192]),
                epoch_bytes: random.one_of(&[500, 3000, 20_000]),
                archive: random.chance(500).then(|| PathBuf::from(ARCHIVE)),
                background: false,
                ..Options::default()
            },
            keep: 1 + usize::try_from(random.below(3)).unwrap_or(0),
            retention,
            snapshot: random.one_of(&[10, 40, 150]),
            compact: random.one_of(&[10, 40, 100]),
            work: random.one_of(&[30, 150]),
            crash_every: random.one_of(&[0, 30, 80, 80, 200, 400]),
            power_loss: random.one_of(&[0, 500, 500, 1000]),
            fail_sync,
            fail_write,
            no_space,
            flip,
            stop,
            clock_jump,
            lost_answer,
            stream,
        }
    }
}
