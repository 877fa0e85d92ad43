//! The objects of the webhook that the leading bridge maintains. They are read and written as a whole.

use http::Method;
use serde_json::Value;

use crate::kubernetes::{Client, Failure, JSON};

/// The path of a ValidatingWebhookConfiguration.
pub(crate) fn configuration(name: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}")
}

pub(crate) async fn read(client: &Client, path: &str) -> Result<Value, Failure> {
    let body = client.get(path, JSON).await?;
    serde_json::from_slice(&body).map_err(|error| Failure::Unreadable(format!("{path}: {error}")))
}

/// Writes an object. Fails with 409 if the object was changed since it was read.
pub(crate) async fn write(client: &Client, path: &str, object: &Value) -> Result<(), Failure> {
    let body = object.to_string().into();
    client.send(Method::PUT, path, body).await.map(|_| ())
}
