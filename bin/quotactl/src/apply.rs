//! `apply` and `delete`: quotas and groups as manifests.
//!
//! Manifests stay free JSON: the daemon validates them, and the results of a dry run are compared field by field.

use std::{collections::BTreeMap, path::PathBuf};

use http::{HeaderMap, Method, StatusCode, header};
use quota_client::http::Address;
use serde_json::{Value, json};

use super::{
    args::{Delete, DeleteWhat},
    failure::{Exit, Failure, Outcome},
    group,
    manifest::{self, Document, text},
    output::note,
    session::{Session, each},
};

/// The object that a manifest describes.
pub(crate) struct Subject {
    /// Kind and name, as in kubectl: `resourcequota/q`.
    pub(crate) shown: String,
    name: String,
    /// The namespace of a quota; none for a group.
    namespace: Option<String>,
    address: Address,
    /// The path of the collection in the Kubernetes-style API, without the object's name.
    collection: Vec<String>,
}

/// Creates or changes the quotas and groups of manifests.
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
    let subject = Subject::of(session, document)?;
    let before = match session.client.get_json(&subject.address) {
        Ok(object) => Some(version(&object).to_owned()),
        Err(failure) if failure.exit == Exit::NotFound => None,
        Err(failure) => return Err(failure),
    };
    let reply = session
        .client
        .send_json(Method::PUT, &subject.address, &document.value)?;
    let done = match before {
        _ if reply.status == StatusCode::CREATED => "created",
        Some(before) if before == version(&reply.json) => "unchanged",
        _ => "configured",
    };
    note_warnings(&reply.headers);
    if session.output.is_structured() {
        return session.output.value(&reply.json);
    }
    session.output.line(format!("{} {done}", subject.shown))
}

fn apply_dry(session: &Session, document: &Document) -> Outcome {
    let subject = Subject::of(session, document)?;
    let (before, after) = would_be(session, &subject, document)?;
    if session.output.is_structured() {
        return session.output.value(&after);
    }
    let done = match before {
        None => "created",
        Some(before) if differences(&before, &after).is_empty() => "unchanged",
        Some(_) => "configured",
    };
    session
        .output
        .line(format!("{} {done} (dry run)", subject.shown))
}

/// The current object of a manifest, if it exists, and the object after a dry run at the daemon. Changes nothing.
pub(crate) fn would_be(
    session: &Session,
    subject: &Subject,
    document: &Document,
) -> Outcome<(Option<Value>, Value)> {
    let collection = subject.collection.iter().map(String::as_str);
    let object = collection.clone().chain([subject.name.as_str()]);
    let object = Address::of(object.collect::<Vec<_>>());
    let before = match session.client.get_json(&object) {
        Ok(object) => Some(object),
        Err(failure) if failure.exit == Exit::NotFound => None,
        Err(failure) => return Err(failure),
    };
    let (method, address) = match before {
        Some(_) => (Method::PUT, object),
        None => (Method::POST, Address::of(collection.collect::<Vec<_>>())),
    };
    let address = address.with("dryRun", "All");
    let reply = session
        .client
        .send_json(method, &address, &document.value)?;
    Ok((before, reply.json))
}

/// Differences in the fields of a manifest: the field, and its value before and after.
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
fn said(object: &Value) -> BTreeMap<String, Value> {
    const PLACES: [&str; 7] = [
        "metadata.labels",
        "metadata.annotations",
        "spec",
        "spec.hard",
        "spec.selector",
        "spec.quota",
        "spec.quota.hard",
    ];
    let mut fields = BTreeMap::new();
    for place in PLACES {
        let pointer = format!("/{}", place.replace('.', "/"));
        let Some(map) = object.pointer(&pointer).and_then(Value::as_object) else {
            continue;
        };
        for (name, value) in map {
            let is_place = PLACES.contains(&format!("{place}.{name}").as_str());
            if place.starts_with("metadata") || !is_place {
                fields.insert(format!("{place}[{name}]"), value.clone());
            }
        }
    }
    fields
}

/// Deletes quotas or groups by name, or those that manifests name.
pub(crate) fn delete(session: &Session, args: &Delete) -> Outcome {
    let (names, files) = match &args.what {
        // The command line cannot rule it out: it would rule out global options, too.
        Some(_) if !args.files.is_empty() => {
            return Err(Failure::usage("-f does not go before `quota` or `group`"));
        }
        Some(DeleteWhat::Group { names }) => {
            return each(names, |name| delete_one(session, &Subject::group(name)));
        }
        Some(DeleteWhat::Quota { names, files }) => (names.as_slice(), files),
        None => ([].as_slice(), &args.files),
    };
    if names.is_empty() && files.is_empty() {
        return Err(Failure::usage("nothing to delete is named")
            .hint("-f FILE, `quota NAME` or `group NAME` name something"));
    }
    let namespace = session.scope.of_one("a quota")?;
    let named = names.iter().map(|name| Subject::quota(namespace, name));
    let mut found: Vec<_> = named.collect();
    if !files.is_empty() {
        for document in manifest::load(files)? {
            let subject = Subject::of(session, &document)
                .map_err(|failure| failure.about(&document.place))?;
            found.push(subject);
        }
    }
    each(&found, |subject| delete_one(session, subject))
}

fn delete_one(session: &Session, subject: &Subject) -> Outcome {
    session.client.call(Method::DELETE, &subject.address)?;
    if session.output.is_structured() {
        return session.output.value(&subject.identity());
    }
    session.output.line(format!("{} deleted", subject.shown))
}

impl Subject {
    /// The object that a manifest describes.
    pub(crate) fn of(session: &Session, document: &Document) -> Outcome<Self> {
        let object = &document.value;
        let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let name = text(object, "/metadata/name");
        let is_group = match (version, kind) {
            ("v1", "ResourceQuota") => false,
            ("quota.openshift.io/v1", "ClusterResourceQuota") => true,
            _ => {
                return Err(Failure::general(format!(
                    "neither a v1 ResourceQuota nor a quota.openshift.io/v1 ClusterResourceQuota but {version:?} {kind:?}"
                )));
            }
        };
        if name.is_empty() {
            return Err(Failure::general(format!("the {kind} has no metadata.name")));
        }
        if is_group {
            return Ok(Self::group(name));
        }
        let own = text(object, "/metadata/namespace");
        let namespace = session.scope.of_document(Some(own))?;
        Ok(Self::quota(&namespace, name))
    }

    fn quota(namespace: &str, name: &str) -> Self {
        let collection = ["api", "v1", "namespaces", namespace, "resourcequotas"];
        Self {
            shown: format!("resourcequota/{name}"),
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
            address: Address::in_namespace(namespace, ["quotas", name]),
            collection: collection.map(str::to_owned).to_vec(),
        }
    }

    fn group(name: &str) -> Self {
        let collection = ["apis", "quota.openshift.io", "v1", "clusterresourcequotas"];
        Self {
            shown: format!("{}/{name}", group::KIND),
            name: name.to_owned(),
            namespace: None,
            address: group::address(name),
            collection: collection.map(str::to_owned).to_vec(),
        }
    }

    /// The identity of a deleted object, in the form of the API's responses about quotas and groups.
    fn identity(&self) -> Value {
        match &self.namespace {
            Some(namespace) => json!({
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": self.name, "namespace": namespace},
            }),
            None => json!({ "name": self.name }),
        }
    }
}

/// The resourceVersion of a quota, or of a group with typed fields.
fn version(object: &Value) -> &str {
    match text(object, "/metadata/resourceVersion") {
        "" => text(object, "/resourceVersion"),
        version => version,
    }
}

/// Prints the warnings of a response.
pub(crate) fn note_warnings(headers: &HeaderMap) {
    for warning in headers.get_all(header::WARNING) {
        let text = warning_text(warning.to_str().unwrap_or_default());
        note(format!("warning: {text}"));
    }
}

/// The text of a `Warning` header, which is quoted after a code and an agent.
fn warning_text(header: &str) -> String {
    let Some((_, quoted)) = header.split_once('"') else {
        return header.to_owned();
    };
    let mut text = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => text.extend(characters.next()),
            plain => text.push(plain),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_read_out_of_its_quotes() {
        assert_eq!(warning_text(r#"299 - "plain""#), "plain");
        assert_eq!(
            warning_text(r#"299 - "of \"a\" \\ b" "date""#),
            r#"of "a" \ b"#
        );
        assert_eq!(warning_text("odd"), "odd");
    }
}
