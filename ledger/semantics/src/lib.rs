//! The rules of Kubernetes' quotas: quantities, footprints of objects, scopes, and admission.
//!
//! Pure: plain data in, plain data out, no clock, no disk, no network, no randomness.

mod actor;
pub mod admission;
pub mod candidate;
pub mod csv;
pub mod embedded;
pub mod field;
pub mod group;
pub mod name;
mod nullable;
pub mod object;
mod period;
pub mod quantity;
pub mod quota;
pub mod report;
pub mod resource;
pub mod syntax;
pub mod time;
pub mod uid;
pub mod yaml;

pub use actor::Actor;
pub use name::Name;
pub use period::{ParsePeriodError, Period};
pub use time::{Span, Timestamp, TimestampText, in_microseconds};
