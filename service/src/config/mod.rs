//! Configuration: built-in defaults, then a file, then the environment, then flags.
//!
//! A program's [`Schema`] defines its keys, its shipped file documents them. Everything else is derived from those two:
//! flags, environment names, help, suggestions.

mod flags;
mod layers;
mod log;
mod problem;
mod reference;
mod schema;
mod sources;
mod text;
mod traces;
mod units;

pub use flags::{Command, Invocation, Task, parse};
pub use layers::{Effective, leaves_of_defaults, load};
pub use log::{Log, LogFormat};
pub use problem::{Origin, Problem, Problems};
pub use quota_semantics::{ParsePeriodError, Period};
pub use reference::{Entry, entries};
pub use schema::{Finding, Schema, shipped};
pub use sources::Sources;
pub use text::{blank, redact, redact_addresses};
pub use traces::Traces;
pub use units::{ParseSizeError, Size};
