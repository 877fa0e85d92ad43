//! The webhook's certificate, maintained by the leading bridge: a Secret with the certificate that quotad serves, and
//! the `caBundle` by which the API server trusts it.

mod make;
mod plan;

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kubernetes::{Client, Failure},
    webhook,
};
use make::{Pair, certificates};
use plan::{Held, plan};

/// The delay after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// Keys of the Secret: all CAs, the key of the first CA, and the serving certificate with its key.
const AUTHORITIES: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Maintains one certificate.
pub(crate) struct CertificateManager {
    /// The API server.
    pub client: Client,
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret, which has to exist, and may be empty.
    pub secret: String,
    /// The name of the ValidatingWebhookConfiguration.
    pub webhook: String,
    /// The names that the serving certificate covers.
    pub names: Vec<String>,
    /// The interval of checks. A new CA is trusted for this long before it signs.
    pub every: Duration,
}

impl CertificateManager {
    /// Maintains the certificate; never returns.
    pub(crate) async fn run(&self) {
        loop {
            let wait = match self.look(Timestamp::now()).await {
                Ok(()) => self.every,
                // Somebody else has written: what is there now has to be read.
                Err(failure) if failure.code() == Some(409) => Duration::from_secs(1),
                Err(failure) => {
                    tracing::warn!(%failure, "cannot keep the webhook's certificate");
                    RETRY
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn look(&self, now: Timestamp) -> Result<(), Failure> {
        let secret_path = format!("/api/v1/namespaces/{}/secrets/{}", self.namespace, self.secret);
        let webhook_path = webhook::configuration(&self.webhook);
        let mut secret = webhook::read(&self.client, &secret_path).await?;
        let mut configuration = webhook::read(&self.client, &webhook_path).await?;
        let held = held(&secret["data"]);
        let plan = plan(&held, &trusted(&configuration), &self.names, now)
            .map_err(|error| Failure::Unreadable(format!("no certificate: {error}")))?;
        // First what is trusted, then what is served.
        if trust(&mut configuration, &plan.trusted.concat()) {
            webhook::write(&self.client, &webhook_path, &configuration).await?;
            tracing::info!(
                webhook = self.webhook,
                authorities = plan.trusted.len(),
                "wrote the caBundle"
            );
        }
        if plan.held != held {
            hold(&mut secret, &plan.held);
            webhook::write(&self.client, &secret_path, &secret).await?;
            tracing::info!(secret = self.secret, "wrote the webhook's certificate");
        }
        Ok(())
    }
}

/// The content of a Secret. Unreadable parts count as missing.
fn held(data: &Value) -> Held {
    let text = |key: &str| decode(&data[key]);
    Held {
        authorities: certificates(&text(AUTHORITIES)),
        key: text(AUTHORITY_KEY),
        serving: Pair { certificate: text(CERTIFICATE), key: text(KEY) },
    }
}

fn hold(secret: &mut Value, held: &Held) {
    for (key, text) in [
        (AUTHORITIES, &held.authorities.concat()),
        (AUTHORITY_KEY, &held.key),
        (CERTIFICATE, &held.serving.certificate),
        (KEY, &held.serving.key),
    ] {
        if !secret["data"].is_object() {
            secret["data"] = json!({});
        }
        secret["data"][key] = STANDARD.encode(text).into();
    }
}

/// The CAs that all webhooks of the configuration trust.
fn trusted(configuration: &Value) -> Vec<String> {
    let bundles = configuration["webhooks"].as_array().into_iter().flatten();
    let bundles =
        bundles.map(|webhook| certificates(&decode(&webhook["clientConfig"]["caBundle"])));
    let common = bundles.reduce(|mut common, other| {
        common.retain(|certificate| other.contains(certificate));
        common
    });
    common.unwrap_or_default()
}

/// Sets the `caBundle` of all webhooks. Returns whether something changed.
fn trust(configuration: &mut Value, bundle: &str) -> bool {
    let bundle = Value::from(STANDARD.encode(bundle));
    let mut changed = false;
    for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
        let place = &mut webhook["clientConfig"]["caBundle"];
        changed |= *place != bundle;
        *place = bundle.clone();
    }
    changed
}

fn decode(field: &Value) -> String {
    let bytes = field.as_str().and_then(|text| STANDARD.decode(text).ok());
    String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
}
