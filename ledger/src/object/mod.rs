//! The footprint of an object: what it counts for.
