//! Configuration: built-in defaults, then a file, then the environment, then flags.
//!
//! A program's [`Schema`] defines its keys, its shipped file documents them. Everything else is derived from those two:
//! flags, environment names, help, suggestions.

mod flags;
mod layers;
mod schema;
mod sources;
mod values;

pub use flags::{Command, Invocation, Task, parse};
pub use layers::{Effective, Origin, Problem, Problems, leaves_of_defaults, load};
pub use quota_semantics::{ParsePeriodError, Period};
pub use schema::{Entry, Finding, Log, LogFormat, Schema, Traces, entries, shipped};
pub use sources::Sources;
pub use values::{ParseSizeError, Size, blank, redact, redact_addresses};
