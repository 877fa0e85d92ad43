//! Configuration: built-in defaults, then `config.toml`, then the environment, then flags.
//!
//! [`schema`] says which keys there are, the shipped `config.toml` what they mean. Everything else
//! is derived from those two: flags, environment names, help, suggestions.

mod flags;
mod layers;
mod problem;
mod reference;
pub mod schema;
mod sources;
mod text;
mod units;
mod validate;

#[cfg(test)]
mod tests;

pub use flags::{Invocation, Task, parse};
pub use layers::{Effective, load};
pub use problem::{Origin, Problem, Problems};
pub use schema::{Config, LogFormat, Nats, Snapshot};
pub use sources::{DEFAULT_FILE, Sources};
pub use text::redact;
pub use units::{ParsePeriodError, ParseSizeError, Period, Size};
