//! A second computation of the state from the entries, independent of the fold in `state`.

mod naive;

pub use naive::{Counted, Held, Naive};
