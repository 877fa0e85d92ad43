//! Bugs that can be planted, to verify that the tests find them: in a copy of the tree, to which `tests/planted/run` applies
//! the patches of this directory. The product does not know of them.

use std::{cell::Cell, sync::OnceLock};

macro_rules! bugs {
    ($($list:ident: $list_what:literal { $($name:ident: $what:literal,)+ })+) => {
        /// A typical bug of programs like these.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[doc = $what] $name,)+)+
        }

        impl Bug {
            $(
                #[doc = $list_what]
                pub const $list: &[Self] = &[$(Self::$name,)+];
            )+

            /// The bug of this name, in the format of [`fmt::Debug`](std::fmt::Debug).
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($(stringify!($name) => Some(Self::$name),)+)+
                    _ => None,
                }
            }

            /// The description of the bug.
            #[must_use]
            pub const fn what(self) -> &'static str {
                match self {
                    $($(Self::$name => $what,)+)+
                }
            }
        }
    };
}

bugs! {
    LEDGER: "Bugs of one ledger on its disk." {
        AckBeforeSync: "an answer leaves before the sync",
        SyncErrorIgnored: "a failed sync of the write-ahead log counts as done",
        WritesOnWhenFull: "the journal goes on after a write that found no room",
        AnchorIgnored: "the last acknowledged position is not compared with the write-ahead log",
        NoSyncAtOpen: "recovery does not sync what it has read",
        SegmentNameNotSynced: "the directory is not synced after a new segment got its name",
        EpochNotSynced: "an epoch is sealed, and its log let go, without a sync of its database",
        SnapshotNotSynced: "a snapshot is installed without a sync",
        SnapshotWithoutEnded: "a loaded state lacks the ended reservations",
        NoIdempotency: "a repeated request is decided again",
        SettledTwice: "a reservation that has ended can be released",
        ReservedIgnored: "reservations do not count against a limit",
        BatchBlind: "the requests of a batch do not see each other",
        ClockTrusted: "ledger time follows the wall clock, also backwards",
        BlindExpiry: "reservations expire while the sources lag",
        CursorNotInBatch: "the cursor is not always written with the events that it covers",
        DeliveriesTrusted: "any delivered message counts as the next one",
        StreamTrusted: "a stream of the same name counts as the same stream",
        GapsIgnored: "lost messages are not recorded as a gap",
    }
    CLUSTER: "Bugs of replicas that share a log." {
        NoFence: "a new leader assumes that the old one is gone: no fence, and no expected sequence",
        LeaseOnly: "a leader appends as long as it thinks that it leads, without an expected sequence",
        SequenceRefreshed: "an ambiguous append is sent again after the message at its sequence",
        RefusalTrusted: "a refused append is sent again after the sequence in the refusal",
        PositionBeforeSync: "a position in the log is stored before the replica is synced up to it",
        LeaseIgnored: "a leader denies although another may lead by now",
        EmptyReadTrusted: "a replica counts as current when a read finds no more messages",
    }
    BRIDGE: "Bugs of the publisher of a cluster's objects." {
        IdsByVersion: "the id of a message is the uid and version of its object",
        EndBeforeLastPage: "a relist ends before its last page",
        FilterKept: "a publisher that leads again leaves out what it published in an earlier term",
        WatermarkWithoutQuorum: "a watermark is based on a read that the API server answers from its cache",
    }
}

/// The environment variable with the bug of a process.
pub const VARIABLE: &str = "QUOTA_PLANTED_BUG";

static OF_PROCESS: OnceLock<Bug> = OnceLock::new();

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Sets the bug of this thread, or none.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Sets the bug of all threads of this process, unless another one was set before.
pub fn plant_in_process(bug: Bug) {
    OF_PROCESS.get_or_init(|| bug);
}

/// Whether this thread, or the whole process, has this bug.
#[must_use]
pub fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug) || OF_PROCESS.get() == Some(&bug)
}
