//! Traces: spans of requests, sent by OTLP over HTTP. Off unless an address is configured.
//!
//! A request continues the trace of its `traceparent` (W3C Trace Context), and the caller's sampling decision. A
//! separate thread sends spans in batches, so that no request waits for the receiver; spans that the receiver does not
//! accept in time are dropped. A program without the feature `otlp` makes no spans.

#[cfg(not(feature = "otlp"))]
mod none;
#[cfg(feature = "otlp")]
mod otlp;

use tracing_subscriber::Layer;

#[cfg(not(feature = "otlp"))]
pub use none::{Sending, continues};
#[cfg(feature = "otlp")]
pub use otlp::{Sending, continues};

#[cfg(not(feature = "otlp"))]
pub(crate) use none::layer;
#[cfg(feature = "otlp")]
pub(crate) use otlp::layer;

/// The target of spans that are sent; other spans only go to the log.
pub const TARGET: &str = "traces";

/// Whether this program can send spans.
pub const IS_BUILT_IN: bool = cfg!(feature = "otlp");

/// The layer that makes spans of instrumented code with [`TARGET`].
type Spans<S> = Box<dyn Layer<S> + Send + Sync>;
