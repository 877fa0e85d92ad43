//! The suffixes of quantities.

use super::NANOS;

/// The decimal suffixes from 10^-9 on, each a thousand times the one before.
pub(super) const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// The binary suffixes from 1 on, each 1024 times the one before.
pub(super) const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The largest number that can be written with a binary suffix, in billionths.
pub(super) const BINARY_CAP: i128 = i64::MAX as i128 * NANOS;
