//! Request bodies: media type, text, fields.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, header};
use serde::Deserialize;

use super::problem::{Problem, Reason};
use crate::{parse_errors::in_plain_words, request_headers::media_type, whole_body::whole_body};
use quota_semantics::yaml;

const JSON: &str = "application/json";

/// Media types that tools set by default: a body with one of them is read as the type that the path expects.
const UNSPECIFIED: [&str; 3] =
    ["application/x-www-form-urlencoded", "application/octet-stream", "text/plain"];

const YAML: [&str; 3] = ["application/yaml", "text/yaml", "application/x-yaml"];

/// A body of JSON text, not parsed yet; empty if there is none.
#[derive(Clone, Debug)]
pub(super) struct JsonText(Bytes);

/// The text of one JSON object, or its form in YAML.
#[derive(Clone, Debug)]
pub(super) struct ObjectText {
    text: JsonText,
    yaml: bool,
}

impl<S: Send + Sync> FromRequest<S> for JsonText {
    type Rejection = Problem;

    fn from_request(request: Request, _: &S) -> impl Future<Output = Result<Self, Problem>> + Send {
        let checked = must_be_json(request.headers());
        let body = request.into_body();
        async {
            checked?;
            Ok(Self(whole_body(body).await?))
        }
    }
}

impl ObjectText {
    /// Its bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The text in JSON.
    ///
    /// # Errors
    /// `Malformed` if it is not YAML.
    pub(super) fn to_json(&self) -> Result<JsonText, Problem> {
        match self.yaml {
            true => Ok(JsonText(from_yaml(&self.text.0)?)),
            false => Ok(self.text.clone()),
        }
    }
}

/// Converts YAML to JSON.
///
/// # Errors
/// `Malformed` if it is not YAML, or repeats too much.
fn from_yaml(text: &[u8]) -> Result<Bytes, Problem> {
    let value = yaml::object(text).map_err(|error| {
        Problem::new(Reason::Malformed, format!("cannot read the YAML: {error}"))
    })?;
    Ok(value.to_string().into())
}

impl<S: Send + Sync> FromRequest<S> for ObjectText {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let media_type = media_type(request.headers());
        let is_yaml = YAML.contains(&&*media_type);
        let unspecified = media_type.is_empty() || UNSPECIFIED.contains(&&*media_type);
        if !is_yaml && !unspecified && !is_json(&media_type) {
            return Err(unsupported(&media_type, "application/json or application/yaml"));
        }
        let text = whole_body(request.into_body()).await?;
        let yaml = is_yaml || (unspecified && !text.trim_ascii_start().starts_with(b"{"));
        Ok(Self { text: JsonText(text), yaml })
    }
}

impl JsonText {
    /// Whether there is no body.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its bytes.
    #[must_use]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The text.
    #[must_use]
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads the body.
    ///
    /// # Errors
    /// `Malformed` if the body is not JSON, or not of this type; the error names the field and the place.
    pub(super) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        // Serde would accept a list as the fields in their order.
        if !self.0.is_empty() && !self.0.trim_ascii_start().starts_with(b"{") {
            return Err(Problem::new(Reason::Malformed, "the body must be a JSON object"));
        }
        let unread = |error: &dyn std::fmt::Display| {
            Problem::new(
                Reason::Malformed,
                format!("cannot read the body: {}", in_plain_words(error)),
            )
        };
        // Checked once as a whole: otherwise serde checks each string.
        let text = std::str::from_utf8(&self.0).map_err(|error| unread(&error))?;
        serde_json::from_str(text).map_err(|error| unread(&error))
    }
}

/// Refuses a body of another media type.
fn must_be_json(headers: &HeaderMap) -> Result<(), Problem> {
    let content_type = headers.get(header::CONTENT_TYPE);
    // The usual spelling, compared first.
    if content_type.is_some_and(|value| value == JSON) {
        return Ok(());
    }
    let media_type = media_type(headers);
    if !media_type.is_empty() && !is_json(&media_type) && !UNSPECIFIED.contains(&&*media_type) {
        return Err(unsupported(&media_type, JSON));
    }
    Ok(())
}

fn is_json(media_type: &str) -> bool {
    media_type == JSON || media_type.ends_with("+json")
}

fn unsupported(media_type: &str, wanted: &str) -> Problem {
    let detail = format!("the body must be {wanted}, not {media_type:?}");
    Problem::new(Reason::UnsupportedMediaType, detail)
}
