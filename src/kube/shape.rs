//! What an object and a list look like in each shape.

use serde_json::{Value, json};

use super::{
    accept::{META_VERSION, Shape},
    object::Object,
    params::Params,
    resource::to_json,
    status::Result,
    table::{Attachment, table},
};

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
