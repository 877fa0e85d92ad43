//! The replicated log of a ledger on NATS JetStream.
//!
//! The protocol is in [`protocol`](crate::protocol); this module carries it out: the stream and its rules ([`stream`]), its end
//! when it has to be recreated (`tail`), the checks of the servers ([`servers`]), appends and reads ([`Log`]), the
//! task that drives one member ([`Driver`]), and the journal of a leader ([`ReplicatedJournal`]).

mod clock;
mod driver;
mod log;
pub mod servers;
mod stored_position;
pub mod stream;

pub use clock::{Clock, Offset, WallClock, since_boot, wall};
pub use driver::{ApplyError, Driver, Ended, Handle, Host, Status};
pub use log::{BATCH_BYTES, Log, PAYLOAD_MAX, ReplicatedJournal};
pub use stored_position::{PositionFile, PositionFileError};
pub use stream::Names;
