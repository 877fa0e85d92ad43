//! The shape of a response: its negotiation, and what an object and a list look like in it.

use axum::extract::FromRequestParts;
use http::{HeaderMap, header, request::Parts};
use serde_json::{Value, json};

use super::{
    object::Object,
    params::Params,
    resource::to_json,
    status::{Failure, Result},
    table::{Attachment, table},
};

/// The API group of shapes other than the objects themselves.
const META: &str = "meta.k8s.io";

/// Its version in responses with metadata only.
pub(super) const META_VERSION: &str = "meta.k8s.io/v1";

/// The offered types, as listed in a 406 response.
const OFFERED: &str = "application/json, application/json;as=Table;g=meta.k8s.io;v=v1, \
                       application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The shape of a response. All shapes are JSON: Kubernetes' clients accept JSON even where they prefer protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The objects themselves.
    Whole,
    /// Their metadata only.
    Metadata,
    /// A table for people, of this version of its API.
    Table(&'static str),
}

impl<S: Sync> FromRequestParts<S> for Shape {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        Self::of(&parts.headers)
    }
}

impl Shape {
    fn of(headers: &HeaderMap) -> Result<Self> {
        let mut ranges = accepted(headers).peekable();
        if ranges.peek().is_none() {
            return Ok(Self::Whole);
        }
        let shape = ranges.find_map(|range| Self::offered(&range));
        shape.ok_or_else(|| Failure::not_acceptable(OFFERED))
    }

    fn offered(range: &MediaRange<'_>) -> Option<Self> {
        if !range.is_json() {
            return None;
        }
        match (range.get("as"), range.get("g"), range.get("v")) {
            (None, ..) => Some(Self::Whole),
            (Some("Table"), Some(META), Some("v1")) => Some(Self::Table(META_VERSION)),
            (Some("Table"), Some(META), Some("v1beta1")) => {
                Some(Self::Table("meta.k8s.io/v1beta1"))
            }
            (
                Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
                Some(META),
                Some("v1"),
            ) => Some(Self::Metadata),
            _ => None,
        }
    }
}

/// One of the media types that a caller accepts.
#[derive(Clone, Debug)]
pub(super) struct MediaRange<'a> {
    essence: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> MediaRange<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default();
        let parameters = parts.filter_map(|part| part.split_once('=')).collect();
        Self { essence, parameters }
    }

    pub(super) fn is(&self, essence: &str) -> bool {
        self.essence.eq_ignore_ascii_case(essence)
    }

    pub(super) fn is_json(&self) -> bool {
        ["application/json", "application/*", "*/*"].iter().any(|essence| self.is(essence))
    }

    pub(super) fn get(&self, parameter: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(name, _)| *name == parameter).map(|(_, value)| *value)
    }
}

/// The media types that a caller accepts, in the order of the header.
pub(super) fn accepted(headers: &HeaderMap) -> impl Iterator<Item = MediaRange<'_>> {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges = values.flat_map(|value| value.split(','));
    ranges.map(str::trim).filter(|range| !range.is_empty()).map(MediaRange::parse)
}

impl Shape {
    /// What the rows of a table carry.
    pub(super) fn attachment(self, params: &Params) -> Result<Attachment> {
        match self {
            Self::Table(_) => Attachment::parse(&params.include_object),
            Self::Whole | Self::Metadata => Ok(Attachment::Nothing),
        }
    }

    /// Whether whole objects are sent: not only their metadata, or the cells of a table.
    pub(super) fn is_whole(self, attachment: Attachment) -> bool {
        match self {
            Self::Whole => true,
            Self::Metadata => false,
            Self::Table(_) => attachment == Attachment::Whole,
        }
    }

    /// As much of an object as JSON as is sent of it.
    pub(super) fn json(self, object: &Object, attachment: Attachment) -> Result<Value> {
        match (self, attachment) {
            (Self::Table(_), Attachment::Nothing) => Ok(Value::Null),
            _ if self.is_whole(attachment) => object.to_json(),
            _ => Ok(json!({"metadata": to_json(object.manifest.metadata())?})),
        }
    }

    /// The item of a list, or its row of a table.
    pub(super) fn item(
        self,
        object: Value,
        attachment: Attachment,
        cells: impl FnOnce() -> Value,
    ) -> Value {
        match self {
            Self::Whole => object,
            Self::Metadata => partial(&object, META_VERSION),
            Self::Table(version) => {
                let object = match attachment {
                    Attachment::Nothing => Value::Null,
                    Attachment::Metadata => partial(&object, version),
                    Attachment::Whole => object,
                };
                json!({"cells": cells(), "object": object})
            }
        }
    }

    /// The response for one object: its item, or a table with its row alone.
    pub(super) fn one(
        self,
        item: Value,
        resource_version: &str,
        columns: impl FnOnce() -> Value,
    ) -> Value {
        match self {
            Self::Whole | Self::Metadata => item,
            Self::Table(version) => {
                let metadata = json!({"resourceVersion": resource_version});
                table(version, &metadata, columns(), vec![item])
            }
        }
    }

    /// A list of these items.
    pub(super) fn list(
        self,
        (kind, api_version): (&str, &str),
        metadata: &Value,
        columns: impl FnOnce() -> Value,
        items: Vec<Value>,
    ) -> Value {
        let list = |kind, version, items: Vec<Value>| json!({"kind": format!("{kind}List"), "apiVersion": version, "metadata": metadata, "items": items});
        match self {
            Self::Whole => list(kind, api_version, items),
            Self::Metadata => list("PartialObjectMetadata", META_VERSION, items),
            Self::Table(version) => table(version, metadata, columns(), items),
        }
    }
}

/// Only the metadata of an object, in this version of the metadata API.
fn partial(object: &Value, version: &str) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": object["metadata"]})
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn shape(accept: &'static str) -> Option<Shape> {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
        Shape::of(&headers).ok()
    }

    #[test]
    fn the_first_shape_that_is_offered_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                       application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(shape(kubectl), Some(Shape::Table("meta.k8s.io/v1")));
        assert_eq!(
            shape("application/vnd.kubernetes.protobuf,application/json"),
            Some(Shape::Whole)
        );
        assert_eq!(shape("application/json;as=Other;g=meta.k8s.io;v=v1, */*"), Some(Shape::Whole));
        assert_eq!(
            shape("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Some(Shape::Metadata)
        );
        assert_eq!(shape("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(Shape::of(&HeaderMap::new()).ok(), Some(Shape::Whole));
    }
}
