//! The stream on the server.

use async_nats::jetstream::{
    self, ErrorCode,
    context::GetStreamErrorKind,
    stream::{Config, StorageType, Stream},
};

use super::{Ended, Intake};

/// Finds the stream, or creates it if the configuration says so.
pub(super) async fn find(intake: &Intake) -> Result<Stream, Ended> {
    let context = jetstream::new(intake.client.clone());
    let name = &intake.settings.stream;
    match context.get_stream(name).await {
        Err(error) if is_missing(&error.kind()) => {}
        found => return found.map_err(Ended::failed("find the stream")),
    }
    if !intake.settings.create_stream {
        return Err(Ended::Missing(name.clone()));
    }
    let config = Config {
        name: name.clone(),
        subjects: vec![intake.settings.subject.clone()],
        storage: StorageType::File,
        ..Config::default()
    };
    let created = context.create_stream(config).await;
    let created = created.map_err(Ended::failed("create the stream"))?;
    tracing::info!(stream = name, "created the stream");
    Ok(created)
}

fn is_missing(kind: &GetStreamErrorKind) -> bool {
    matches!(kind, GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Whether a stream takes nothing but what we consume, so that a missing position is a lost message.
pub(super) fn is_all_ours(config: &Config, subject: &str) -> bool {
    let has_sources = config
        .sources
        .as_ref()
        .is_some_and(|sources| !sources.is_empty());
    config.subjects == [subject] && config.mirror.is_none() && !has_sources
}
