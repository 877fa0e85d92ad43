//! A ValidatingWebhookConfiguration that cannot lock a cluster out.
//!
//! Kinds are listed one by one. The webhook does not review deletions, the removal of finalizers, status writes of
//! pods, or requests in namespaces that the cluster or the daemon itself needs to start again.

use std::{fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use quota_client::paths;
use quota_semantics::{
    admission::{Charging, WebhookRule, webhook_rules},
    object::GroupResource,
    quota::selector::NAME_LABEL,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};

use crate::{
    args::{FailurePolicy, Webhook},
    failure::{Failure, Outcome},
    output::{Output, yaml},
};

/// The namespaces that a cluster needs to start.
const OF_THE_CLUSTER: [&str; 3] = ["kube-system", "kube-node-lease", "kube-public"];

pub(super) fn run(wanted: &Webhook, output: &Output) -> Outcome {
    let configuration = configuration(wanted)?;
    if output.is_structured() {
        return output.value(&configuration);
    }
    let name = &wanted.name;
    let removal = format!("kubectl delete validatingwebhookconfiguration {name}");
    output.line(format!("# In an emergency: {removal}\n{}", yaml(&configuration)?.trim_end()))
}

pub(super) fn configuration(wanted: &Webhook) -> Outcome<Value> {
    let (place, own_namespace) = place(wanted)?;
    let mut client = place;
    if let Some(file) = &wanted.ca_bundle {
        client["caBundle"] = bundle(file)?.into();
    }
    let mut exempt: Vec<&str> = OF_THE_CLUSTER.to_vec();
    exempt.extend(wanted.exempt.iter().map(String::as_str));
    exempt.extend(own_namespace);
    exempt.sort_unstable();
    exempt.dedup();
    let failure_policy = match wanted.failure_policy {
        FailurePolicy::Ignore => "Ignore",
        FailurePolicy::Fail => "Fail",
    };
    Ok(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": wanted.name },
        "webhooks": [{
            // Also the prefix of the audit annotations.
            "name": format!("admission.{}.local", wanted.name),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "failurePolicy": failure_policy,
            "timeoutSeconds": wanted.timeout_seconds,
            "matchPolicy": "Equivalent",
            "clientConfig": client,
            "rules": rules(wanted)?,
            "namespaceSelector": { "matchExpressions": [{
                "key": NAME_LABEL,
                "operator": "NotIn",
                "values": exempt,
            }]},
            "matchConditions": conditions(),
        }],
    }))
}

/// `clientConfig`, and the namespace of the daemon, if the options contain it.
fn place(wanted: &Webhook) -> Outcome<(Value, Option<&str>)> {
    if let Some(url) = &wanted.url {
        let base = url.trim_end_matches('/');
        if !base.starts_with("https://") {
            return Err(Failure::usage("--url: must begin with https://"));
        }
        return Ok((json!({ "url": format!("{base}{}", paths::ADMIT) }), None));
    }
    let service = wanted.service.as_deref().unwrap_or_default();
    let unusable = || Failure::usage("--service: must be NAMESPACE/NAME or NAMESPACE/NAME:PORT");
    let (namespace, rest) = service.split_once('/').ok_or_else(unusable)?;
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => (name, port.parse::<u16>().map_err(|_| unusable())?),
        None => (rest, 443),
    };
    if namespace.is_empty() || name.is_empty() {
        return Err(unusable());
    }
    let service =
        json!({ "namespace": namespace, "name": name, "port": port, "path": paths::ADMIT });
    Ok((json!({ "service": service }), Some(namespace)))
}

pub(super) fn bundle(file: &Path) -> Outcome<String> {
    let about = |failure: Failure| failure.about(file.display());
    let pem = fs::read(file).map_err(|error| about(error.into()))?;
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(STANDARD.encode(&pem)),
        Ok(_) => Err(about(Failure::general("holds no certificate"))),
        Err(error) => Err(about(Failure::general(error.to_string()))),
    }
}

/// The requests that the webhook reviews.
fn rules(wanted: &Webhook) -> Outcome<Vec<WebhookRule>> {
    let charged: Vec<String> = wanted.charge.iter().map(GroupResource::to_string).collect();
    Charging::new(charged.iter().map(String::as_str))
        .map_err(|error| Failure::usage(format!("--charge: {error}")))?;
    Ok(webhook_rules(&wanted.count, &wanted.charge))
}

/// The match conditions, in CEL. The webhook reviews a request only if all of them hold.
fn conditions() -> Value {
    json!([
        {
            // Mirror pods of nodes must never wait for the daemon.
            "name": "not-a-node",
            "expression": "!has(request.userInfo.groups) || !('system:nodes' in request.userInfo.groups)",
        },
        {
            // Finalizers have to be removable while the daemon is down. But an object that is kept by its finalizers can
            // still grow.
            "name": "not-a-mere-deletion",
            "expression": "request.operation == 'CREATE' || !has(object.metadata.deletionTimestamp) \
                || has(object.spec) && (!has(oldObject.spec) || object.spec != oldObject.spec)",
        },
        {
            // Except for pods/resize, the amounts of a pod change only with its deadline.
            "name": "not-a-mere-label",
            "expression": "request.operation == 'CREATE' || request.resource.resource != 'pods' \
                || has(request.subResource) \
                || has(object.spec.activeDeadlineSeconds) != has(oldObject.spec.activeDeadlineSeconds)",
        },
    ])
}
