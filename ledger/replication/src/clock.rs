//! Time as members see it.

/// Milliseconds of a clock that never goes back. Clocks of different members need not agree.
pub type Millis = u64;
