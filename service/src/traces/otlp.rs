//! Sends spans.

use std::time::Duration;

use async_trait::async_trait;
use http::HeaderMap;
use opentelemetry::{KeyValue, propagation::TextMapPropagator as _, trace::TracerProvider as _};
use opentelemetry_http::{Bytes, HeaderExtractor, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{Sampler, SdkTracerProvider},
};
use tracing::{Level, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};
use ureq::Agent;

use super::{Spans, TARGET};
use crate::{config::Traces, outbound};

/// The timeout of one attempt to send spans, and of the last attempt at the end of a program.
const ATTEMPT: Duration = Duration::from_secs(2);

/// Most bytes of a receiver's answer that are read.
const ANSWER_BYTES: u64 = 64 * 1024;

/// Sends the remaining spans when it is dropped.
pub struct Sending(SdkTracerProvider);

impl Drop for Sending {
    fn drop(&mut self) {
        // An unreachable receiver must not prevent a program from ending.
        let _ = self.0.shutdown_with_timeout(ATTEMPT);
    }
}

/// The layer that makes spans of `TARGET` and sends them; none if no address is configured.
///
/// # Errors
/// The exporter cannot be created.
pub(crate) fn layer<S>(
    traces: &Traces,
    program: &'static str,
    version: &'static str,
) -> Result<Option<(Spans<S>, Sending)>, ExporterBuildError>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let Some(url) = &traces.otlp_url else {
        return Ok(None);
    };
    let user_agent = format!("{program}/{version}");
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Client(outbound::agent(url, &user_agent, ATTEMPT)))
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url)
        .with_timeout(ATTEMPT)
        .build()?;
    let resource = Resource::builder()
        .with_service_name(program)
        .with_attribute(KeyValue::new("service.version", version))
        .build();
    let begun_here = Sampler::TraceIdRatioBased(traces.sample_ratio);
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(Sampler::ParentBased(Box::new(begun_here)))
        .with_resource(resource)
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(program))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_level(false)
        .with_tracked_inactivity(false)
        .with_filter(Targets::new().with_target(TARGET, Level::TRACE));
    Ok(Some((layer.boxed(), Sending(provider))))
}

/// Makes a span part of the trace that the request's `traceparent` names.
pub fn continues(span: &Span, headers: &HeaderMap) {
    if span.is_disabled() {
        return;
    }
    let parent = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    // It fails only without the layer, and then there is no trace to join.
    let _ = span.set_parent(parent);
}

/// The HTTP client for the receiver.
#[derive(Debug)]
struct Client(Agent);

#[async_trait]
impl HttpClient for Client {
    /// Blocks: it is called only by the dedicated thread that sends spans.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let sent = self.0.run(Request::from_parts(parts, body.as_ref()))?;
        let (parts, mut body) = sent.into_parts();
        let answer = body.with_config().limit(ANSWER_BYTES).read_to_vec()?;
        Ok(Response::from_parts(parts, answer.into()))
    }
}
