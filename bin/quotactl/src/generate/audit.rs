//! The files with which an API server sends its audit events to the daemon: a policy, and a kubeconfig.

use std::collections::BTreeMap;

use quota_client::paths;
use quota_semantics::object::MEASURED;
use serde_json::{Value, json};

use super::webhook::bundle;
use crate::{
    args::{Audit, AuditPart},
    failure::{Failure, Outcome},
    output::{Output, note, yaml},
};

pub(super) fn run(wanted: &Audit, output: &Output) -> Outcome {
    let (policy, kubeconfig) = (policy(wanted), kubeconfig(wanted)?);
    let is_known = wanted.client_cert.is_some() || wanted.api_server_token.is_some();
    if !is_known && wanted.only != Some(AuditPart::Policy) {
        note(
            "the daemon accepts audit events only from authenticated callers: add --client-cert and --client-key, or \
             --api-server-token",
        );
    }
    if output.is_structured() {
        return output.value(&match wanted.only {
            Some(AuditPart::Policy) => policy,
            Some(AuditPart::Kubeconfig) => kubeconfig,
            None => json!({ "policy": policy, "kubeconfig": kubeconfig }),
        });
    }
    let (policy, kubeconfig) = (yaml(&policy)?, yaml(&kubeconfig)?);
    output.line(match wanted.only {
        Some(AuditPart::Policy) => policy.trim_end().to_owned(),
        Some(AuditPart::Kubeconfig) => kubeconfig.trim_end().to_owned(),
        None => format!(
            "# Two files for kube-apiserver, which --only gives one by one. Besides them: \
             --audit-webhook-batch-max-wait=200ms\n\
             # --audit-policy-file\n{}\n---\n# --audit-webhook-config-file\n{}",
            policy.trim_end(),
            kubeconfig.trim_end()
        ),
    })
}

/// The audit policy: creations of counted kinds, at level Metadata.
pub(super) fn policy(wanted: &Audit) -> Value {
    let more = wanted.count.iter().chain(&wanted.charge);
    let more = more.map(|kind| (&*kind.group, &*kind.resource));
    let mut groups = BTreeMap::<&str, Vec<&str>>::new();
    for (group, resource) in MEASURED.into_iter().chain(more) {
        let resources = groups.entry(group).or_default();
        if !resources.contains(&resource) {
            resources.push(resource);
        }
    }
    let resources = groups
        .into_iter()
        .map(|(group, resources)| json!({ "group": group, "resources": resources }));
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
        "rules": [
            { "level": "Metadata", "verbs": ["create"], "resources": resources.collect::<Vec<_>>() },
            { "level": "None" },
        ],
    })
}

pub(super) fn kubeconfig(wanted: &Audit) -> Outcome<Value> {
    const NAME: &str = "quotad";
    let base = wanted.url.trim_end_matches('/');
    if !base.starts_with("https://") {
        return Err(Failure::usage("--url: must begin with https://"));
    }
    let mut cluster = json!({ "server": format!("{base}{}", paths::AUDIT) });
    if let Some(file) = &wanted.ca_bundle {
        cluster["certificate-authority-data"] = bundle(file)?.into();
    }
    if let Some(name) = &wanted.server_name {
        cluster["tls-server-name"] = name.as_str().into();
    }
    let user = match (&wanted.client_cert, &wanted.client_key, &wanted.api_server_token) {
        (Some(certificate), Some(key), _) => {
            json!({ "client-certificate": certificate, "client-key": key })
        }
        (_, _, Some(token)) => json!({ "tokenFile": token }),
        _ => json!({}),
    };
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": NAME, "cluster": cluster }],
        "users": [{ "name": NAME, "user": user }],
        "contexts": [{ "name": NAME, "context": { "cluster": NAME, "user": NAME } }],
        "current-context": NAME,
    }))
}
