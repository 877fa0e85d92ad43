//! Logging: structured lines on stderr, JSON unless stderr is a terminal.

use std::{any::Any, fmt, io::IsTerminal as _, panic, time::SystemTime};

use jiff::Timestamp;
use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer,
    fmt::{format::Writer, time::FormatTime},
    layer::SubscriberExt as _,
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

use crate::{
    config::{Log, LogFormat, Traces},
    traces::{self, Sending},
};

/// The library by which the bridge talks to Kubernetes has an error for each failed request, without its reason. The
/// bridge's own lines have it.
const SILENT: &str = "kube_client::client::builder=off";

/// The settings of logs and traces.
pub struct Telemetry<'a> {
    /// Log lines.
    pub log: &'a Log,
    /// Traces, for a program that supports them.
    pub traces: Option<&'a Traces>,
}

/// Starts logging, logs panics, and sends traces until the result is dropped. `RUST_LOG` takes precedence over the
/// configured level.
///
/// # Errors
/// A logger is installed already in this process, or traces cannot be sent.
pub fn install(
    Telemetry { log, traces }: Telemetry<'_>,
    program: &'static str,
    version: &'static str,
) -> anyhow::Result<Option<Sending>> {
    let filter = EnvFilter::try_from_default_env()
        .or_else(|_| EnvFilter::try_new(format!("{},{SILENT}", log.level)))
        .unwrap_or_else(|_| EnvFilter::new("info"));
    let pretty = match log.format {
        LogFormat::Auto => std::io::stderr().is_terminal(),
        LogFormat::Json => false,
        LogFormat::Pretty => true,
    };
    let traced = traces.map(|traces| traces::layer(traces, program, version));
    let (spans, sending) = traced.transpose()?.flatten().unzip();
    // Separate filters, so that traces do not depend on the log level.
    tracing_subscriber::registry()
        .with(spans)
        .with(lines(pretty, std::io::stderr).with_filter(filter))
        .try_init()?;
    panic::set_hook(Box::new(log_panic));
    Ok(sending)
}

fn lines<S, W>(pretty: bool, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> tracing_subscriber::fmt::MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_timer(Utc);
    if pretty {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        return layer.with_ansi(colour).boxed();
    }
    layer.json().flatten_event(true).with_span_list(false).boxed()
}

/// RFC 3339 in UTC with microseconds.
struct Utc;

impl FormatTime for Utc {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let now = Timestamp::try_from(SystemTime::now()).map_err(|_| fmt::Error)?;
        write!(writer, "{now:.6}")
    }
}

fn log_panic(info: &panic::PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    tracing::error!(
        target: "panic",
        thread = thread.name().unwrap_or_default(),
        location,
        backtrace = %std::backtrace::Backtrace::capture(),
        "panicked: {}",
        panic_message(info.payload()),
    );
}

/// The message of a panic: a literal, or a formatted text.
pub fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let literal = payload.downcast_ref::<&str>().copied();
    literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_json_line_is_flat_and_bears_its_span() {
        let memory = Memory::default();
        let writer = memory.clone();
        let subscriber = tracing_subscriber::registry().with(lines(false, move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("request", request_id = "r-1").entered();
            tracing::info!(namespace = "team-a\u{1b}[31m", sequence = 7, "granted");
        });
        let line = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert_eq!(line.lines().count(), 1);
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(json["message"], "granted");
        assert_eq!(json["level"], "INFO");
        assert_eq!(json["target"], "quota_service::telemetry::tests");
        assert_eq!(json["sequence"], 7);
        assert_eq!(json["span"]["request_id"], "r-1");
        assert!(!line.contains('\u{1b}'), "a line holds no terminal controls: {line}");
        let time = json["timestamp"].as_str().unwrap();
        assert_eq!(time.len(), "2026-11-20T23:27:44.671321Z".len(), "{time}");
        assert!(time.parse::<Timestamp>().is_ok());
    }
}
