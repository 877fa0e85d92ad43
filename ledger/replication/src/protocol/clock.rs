//! The clock of members.

/// Milliseconds of a monotonic clock. Clocks of different members need not agree.
pub type Millis = u64;
