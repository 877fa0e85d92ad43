//! `apply` and `delete`: quotas as manifests.

use std::{collections::BTreeMap, path::PathBuf};

use http::{Method, StatusCode, header};
use serde_json::Value;

use super::{
    address::Address,
    args::{Delete, DeleteWhat},
    failure::{Exit, Failure, Outcome},
    manifest::{self, Document},
    output::note,
    session::{Session, each, text},
};

/// Creates or changes the quotas of manifests.
pub(crate) fn apply(session: &Session, files: &[PathBuf], dry_run: bool) -> Outcome {
    each(manifest::load(files)?, |document| {
        let place = document.place.clone();
        let apply = match dry_run {
            true => apply_dry,
            false => apply_one,
        };
        apply(session, &document).map_err(|failure| failure.about(&place))
    })
}

fn apply_one(session: &Session, document: &Document) -> Outcome {
    let address = quota_address(session, document)?;
    let before = match session.client.get(&address) {
        Ok(quota) => Some(version(&quota).to_owned()),
        Err(failure) if failure.exit == Exit::NotFound => None,
        Err(failure) => return Err(failure),
    };
    let reply = session
        .client
        .send_json(Method::PUT, &address, Some(&document.value))?;
    let done = match before {
        _ if reply.status == StatusCode::CREATED => "created",
        Some(before) if before == version(&reply.body) => "unchanged",
        _ => "configured",
    };
    for warning in reply.headers.get_all(header::WARNING) {
        note(format!(
            "warning: {}",
            warning_text(warning.to_str().unwrap_or_default())
        ));
    }
    if session.output.is_structured() {
        return session.output.value(&reply.body);
    }
    session.output.line(format!(
        "resourcequota/{} {done}",
        text(&document.value, "/metadata/name")
    ))
}

fn apply_dry(session: &Session, document: &Document) -> Outcome {
    let (before, after) = would_be(session, document)?;
    if session.output.is_structured() {
        return session.output.value(&after);
    }
    let done = match before {
        None => "created",
        Some(before) if differences(&before, &after).is_empty() => "unchanged",
        Some(_) => "configured",
    };
    session.output.line(format!(
        "resourcequota/{} {done} (dry run)",
        text(&document.value, "/metadata/name")
    ))
}

/// The quota of a manifest as it is, if it is there, and as the daemon says that it would be. Changes nothing.
pub(crate) fn would_be(session: &Session, document: &Document) -> Outcome<(Option<Value>, Value)> {
    let before = match session.client.get(&quota_address(session, document)?) {
        Ok(quota) => Some(quota),
        Err(failure) if failure.exit == Exit::NotFound => None,
        Err(failure) => return Err(failure),
    };
    let name = text(&document.value, "/metadata/name");
    let own = text(&document.value, "/metadata/namespace");
    let namespace = session.scope.of_document(Some(own))?;
    let mut segments = vec!["api", "v1", "namespaces", &namespace, "resourcequotas"];
    let method = match before {
        Some(_) => {
            segments.push(name);
            Method::PUT
        }
        None => Method::POST,
    };
    let address = Address::of(segments).with("dryRun", "All");
    let reply = session
        .client
        .send_json(method, &address, Some(&document.value))?;
    Ok((before, reply.body))
}

/// What differs of what a manifest can say: the field, and its value before and after.
pub(crate) fn differences(
    before: &Value,
    after: &Value,
) -> Vec<(String, Option<Value>, Option<Value>)> {
    let (mut old, new) = (said(before), said(after));
    let mut found = Vec::new();
    for (field, value) in new {
        match old.remove(&field) {
            Some(before) if before == value => {}
            before => found.push((field, before, Some(value))),
        }
    }
    found.extend(
        old.into_iter()
            .map(|(field, value)| (field, Some(value), None)),
    );
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// The fields that a manifest can set, by path; amounts in their own map are fields.
fn said(quota: &Value) -> BTreeMap<String, Value> {
    let mut fields = BTreeMap::new();
    for place in [
        "metadata.labels",
        "metadata.annotations",
        "spec",
        "spec.hard",
    ] {
        let pointer = format!("/{}", place.replace('.', "/"));
        let Some(map) = quota.pointer(&pointer).and_then(Value::as_object) else {
            continue;
        };
        for (name, value) in map {
            if (place, name.as_str()) != ("spec", "hard") {
                fields.insert(format!("{place}[{name}]"), value.clone());
            }
        }
    }
    fields
}

/// Deletes quotas by name, or those that manifests name.
pub(crate) fn delete(session: &Session, args: &Delete) -> Outcome {
    let (names, files) = match &args.what {
        Some(DeleteWhat::Quota { names, files }) => (names.as_slice(), files),
        None => ([].as_slice(), &args.files),
    };
    if session.scope.all {
        return Err(Failure::usage(
            "quotas are deleted in one namespace: -A does not go with delete",
        ));
    }
    let named = names.iter().map(|name| {
        (
            name.clone(),
            Address::in_namespace(session.scope.namespace(), ["quotas", name]),
        )
    });
    let mut quotas: Vec<_> = named.collect();
    if !files.is_empty() {
        for document in manifest::load(files)? {
            let address = quota_address(session, &document)
                .map_err(|failure| failure.about(&document.place))?;
            quotas.push((text(&document.value, "/metadata/name").to_owned(), address));
        }
    }
    each(quotas, |(name, address)| {
        session.client.send_json(Method::DELETE, &address, None)?;
        session.output.line(format!("resourcequota/{name} deleted"))
    })
}

fn quota_address(session: &Session, document: &Document) -> Outcome<Address> {
    let quota = &document.value;
    let (version, kind) = (text(quota, "/apiVersion"), text(quota, "/kind"));
    if (version, kind) != ("v1", "ResourceQuota") {
        return Err(Failure::general(format!(
            "not a v1 ResourceQuota but {version:?} {kind:?}"
        )));
    }
    let name = text(quota, "/metadata/name");
    if name.is_empty() {
        return Err(Failure::general("the ResourceQuota has no metadata.name"));
    }
    let namespace = session
        .scope
        .of_document(Some(text(quota, "/metadata/namespace")))?;
    Ok(Address::in_namespace(&namespace, ["quotas", name]))
}

fn version(quota: &Value) -> &str {
    text(quota, "/metadata/resourceVersion")
}

/// The text of a `Warning` header, which stands in quotes behind a code and an agent.
fn warning_text(header: &str) -> &str {
    header.split('"').nth(1).unwrap_or(header)
}
