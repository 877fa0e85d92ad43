//! `apply` and `delete`: quotas and groups as manifests.
//!
//! Manifests stay free JSON: the daemon validates them, and the results of a dry run are compared field by field.

use std::{collections::BTreeMap, path::PathBuf};

use http::{HeaderMap, Method, StatusCode, header};
use quota_client::{
    http::Address,
    table::beside,
    wire::{GroupUsage, Usage},
};
use quota_semantics::{quantity::Quantity, quota::extension::EACH, resource::ResourceList};
use serde_json::{Value, json};

use crate::{
    args::{Delete, DeleteWhat, Moment},
    failure::{Exit, Failure, Outcome},
    group,
    manifest::{self, Document, plain, text},
    output::note,
    session::{Session, each},
    simulate::{Limits, summary},
    table::{self, one_line},
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
    let subject = Subject::from_manifest(session, document)?;
    let before = found(session.client.get_json(&subject.address))?;
    let reply = session.client.send_json(Method::PUT, &subject.address, &document.value)?;
    let done = match &before {
        _ if reply.status == StatusCode::CREATED => "created",
        Some(before) if version(before) == version(&reply.json) => "unchanged",
        _ => "configured",
    };
    note_warnings(&reply.headers);
    note_exceeded(session, &subject, before.as_ref(), &reply.json);
    if session.output.is_structured() {
        return session.output.value(&reply.json);
    }
    session.output.line(format!("{} {done}", subject.shown))
}

fn apply_dry(session: &Session, document: &Document) -> Outcome {
    let subject = Subject::from_manifest(session, document)?;
    let (before, after) = would_be(session, &subject, document)?;
    if session.output.is_structured() {
        return session.output.value(&after);
    }
    let done = match before {
        None => "created",
        Some(before) if differences(&before, &after).is_empty() => "unchanged",
        Some(_) => "configured",
    };
    session.output.line(format!("{} {done} (dry run)", subject.shown))
}

/// The current object of a manifest, if it exists, and the object after a dry run at the daemon. Changes nothing. Prints
/// the warnings that `apply` would print.
pub(crate) fn would_be(
    session: &Session,
    subject: &Subject,
    document: &Document,
) -> Outcome<(Option<Value>, Value)> {
    let collection = subject.collection.iter().map(String::as_str);
    let object = collection.clone().chain([subject.name.as_str()]);
    let object = Address::of(object.collect::<Vec<_>>());
    let before = found(session.client.get_json(&object))?;
    let (method, address) = match before {
        Some(_) => (Method::PUT, object),
        None => (Method::POST, Address::of(collection.collect::<Vec<_>>())),
    };
    let address = address.with("dryRun", "All");
    let reply = session.client.send_json(method, &address, &document.value)?;
    note_warnings(&reply.headers);
    note_exceeded(session, subject, before.as_ref(), &reply.json);
    Ok((before, reply.json))
}

/// Warns of new limits that are below what is used and reserved.
fn note_exceeded(session: &Session, subject: &Subject, before: Option<&Value>, after: &Value) {
    let mut new = limits(after);
    let old = before.map(limits).unwrap_or_default();
    new.retain(|resource, hard| old.get(resource) != Some(hard));
    if new.is_empty() {
        return;
    }
    let warn = |text: &str| note(format!("warning: {}: {text}", subject.shown));
    match taken(session, subject, after) {
        Ok((used, reserved)) => {
            exceeded(&new, &used, &reserved).iter().for_each(|text| warn(text));
        }
        Err(failure) => warn(&format!("its usage is unknown: {}", failure.message)),
    }
}

/// The limits of a quota or a group, in the form of a manifest or of the API.
fn limits(object: &Value) -> ResourceList {
    let places = ["/spec/hard", "/spec/quota/hard", "/hard"];
    let found = places.iter().find(|place| object.pointer(place).is_some());
    found.map(|place| list(object, place)).unwrap_or_default()
}

fn list(object: &Value, pointer: &str) -> ResourceList {
    let list = object.pointer(pointer).cloned();
    let list = list.and_then(|list| serde_json::from_value(list).ok());
    list.unwrap_or_default()
}

/// What is used and reserved now of the limits of an object; of a new group only once it exists.
fn taken(
    session: &Session,
    subject: &Subject,
    after: &Value,
) -> Outcome<(ResourceList, ResourceList)> {
    let client = &session.client;
    let object = found(client.get_json(&subject.address))?.unwrap_or_default();
    let (mut used, mut reserved) =
        (list(&object, "/status/used"), list(&object, "/status/reserved"));
    match &subject.namespace {
        // The limits hold for each namespace alone: what the fullest one has taken.
        None if is_each(after) => {
            let usage = Address::of(["v1", "groups", &subject.name, "usage"]);
            let usage = found(client.get::<GroupUsage>(&usage))?;
            (used, reserved) = (ResourceList::new(), ResourceList::new());
            for member in usage.iter().flat_map(|usage| &usage.content.namespaces) {
                for (resource, own) in member.used.iter() {
                    let amounts = (Some(own), member.reserved.get(resource));
                    if sum(amounts) > sum((used.get(resource), reserved.get(resource))) {
                        used.insert(resource.clone(), own.clone());
                        reserved.insert(resource.clone(), amounts.1.cloned().unwrap_or_default());
                    }
                }
            }
        }
        // The sums of the namespace count for limits that the quota does not have yet.
        Some(namespace)
            if after["spec"]["scopes"].is_null() && after["spec"]["scopeSelector"].is_null() =>
        {
            let usage = Address::in_namespace(namespace, ["usage"]);
            let usage = found(client.get::<Usage>(&usage))?;
            for total in usage.map(|usage| usage.content.resources).unwrap_or_default() {
                if used.get(&total.resource).is_none() {
                    reserved.insert(total.resource.clone(), total.reserved);
                    used.insert(total.resource, total.used);
                }
            }
        }
        _ => {}
    }
    Ok((used, reserved))
}

/// Returns true if the limits of a group hold for each namespace alone.
fn is_each(group: &Value) -> bool {
    group["each"] == true || group["metadata"]["annotations"][EACH] == "true"
}

/// What is used and reserved; a missing amount is 0.
fn sum((used, reserved): (Option<&Quantity>, Option<&Quantity>)) -> Quantity {
    let mut sum = used.cloned().unwrap_or_default();
    sum.add_assign(&reserved.cloned().unwrap_or_default());
    sum
}

/// The answer, or none if the object does not exist.
fn found<T>(answer: Outcome<T>) -> Outcome<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.exit == Exit::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// A line for each limit that is below what is used and reserved.
fn exceeded(limits: &ResourceList, used: &ResourceList, reserved: &ResourceList) -> Vec<String> {
    let lines = limits.iter().filter_map(|(resource, hard)| {
        let (used, reserved) = (used.get(resource), reserved.get(resource));
        (sum((used, reserved)) > *hard).then(|| {
            let [hard, used, reserved] = [Some(hard), used, reserved].map(|amount| beside(amount, hard));
            format!("the new limit of {resource}, {hard}, is below what is taken: {used} used + {reserved} reserved")
        })
    });
    lines.collect()
}

/// Differences in the fields of a manifest: the field, and its value before and after.
pub(crate) fn differences(
    before: &Value,
    after: &Value,
) -> Vec<(String, Option<Value>, Option<Value>)> {
    let (mut old, new) = (settable_fields(before), settable_fields(after));
    let mut found = Vec::new();
    for (field, value) in new {
        match old.remove(&field) {
            Some(before) if before == value => {}
            before => found.push((field, before, Some(value))),
        }
    }
    found.extend(old.into_iter().map(|(field, value)| (field, Some(value), None)));
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// The fields that a manifest can set, by path; amounts in their own map are fields.
fn settable_fields(object: &Value) -> BTreeMap<String, Value> {
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
    let mut found: Vec<_> = named.map(Ok).collect();
    if !files.is_empty() {
        for document in manifest::load(files)? {
            let subject = Subject::from_manifest(session, &document);
            found.push(subject.map_err(|failure| failure.about(&document.place)));
        }
    }
    each(found, |subject| delete_one(session, &subject?))
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
    pub(crate) fn from_manifest(session: &Session, document: &Document) -> Outcome<Self> {
        let object = &document.value;
        let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let name = text(object, "/metadata/name");
        let is_group = match (version, kind) {
            ("v1", "ResourceQuota") => false,
            ("quota.openshift.io/v1", "ClusterResourceQuota") => true,
            _ => {
                let what = match (kind, name) {
                    ("", "") => "an object without kind and name".to_owned(),
                    ("", name) => format!("{name}, which has no kind,"),
                    (kind, "") => format!("a {kind} of {version:?}"),
                    (kind, name) => format!("{kind} {name} of {version:?}"),
                };
                return Err(Failure::general(format!(
                    "left out {what}: neither a v1 ResourceQuota nor a quota.openshift.io/v1 ClusterResourceQuota"
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

/// Shows the changes by each manifest; fails with [`Exit::Conflict`] if there are any.
pub(crate) fn diff(session: &Session, files: &[PathBuf], since: Option<Moment>) -> Outcome {
    let documents = manifest::load(files)?;
    let limits = since.map(|_| Limits::new(&session.scope, documents.clone()));
    let limits = limits.transpose()?;
    let differs = each(documents, |document| {
        let place = document.place.clone();
        diff_one(session, &document).map_err(|failure| failure.about(&place))
    });
    if let Some((limits, since)) = limits.zip(since) {
        let now = table::now();
        let (simulation, _) = limits.simulate(session, (since.resolve(now), now))?;
        session.output.line(summary(&simulation))?;
    }
    differs
}

fn diff_one(session: &Session, document: &Document) -> Outcome {
    let subject = Subject::from_manifest(session, document)?;
    let (before, after) = would_be(session, &subject, document)?;
    let differences = differences(before.as_ref().unwrap_or(&Value::Null), &after);
    if before.is_some() && differences.is_empty() {
        return Ok(());
    }
    let place = match text(&after, "/metadata/namespace") {
        "" => String::new(),
        namespace => format!(" in {namespace}"),
    };
    let mut lines = vec![format!("{}{place}:", subject.shown)];
    for (field, before, after) in differences {
        lines.extend(before.map(|value| format!("-  {field}: {}", plain(&value))));
        lines.extend(after.map(|value| format!("+  {field}: {}", plain(&value))));
    }
    let lines: Vec<_> = lines.iter().map(|line| one_line(line)).collect();
    session.output.line(lines.join("\n"))?;
    Err(Failure::silent(Exit::Conflict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_below_what_is_taken_are_exceeded() {
        let list = |value| list(&value, "");
        let hard = list(json!({"pods": "2", "memory": "1G", "services": "4", "secrets": "3"}));
        let used = list(json!({"pods": "1", "memory": "800225Ki", "services": "5"}));
        let reserved = list(json!({"pods": "1", "memory": "300Mi"}));
        assert_eq!(
            exceeded(&hard, &used, &reserved),
            [
                "the new limit of memory, 1G, is below what is taken: 819430400 used + 314572800 reserved",
                "the new limit of services, 4, is below what is taken: 5 used + 0 reserved",
            ]
        );
    }

    #[test]
    fn a_warning_is_read_out_of_its_quotes() {
        assert_eq!(warning_text(r#"299 - "plain""#), "plain");
        assert_eq!(warning_text(r#"299 - "of \"a\" \\ b" "date""#), r#"of "a" \ b"#);
        assert_eq!(warning_text("odd"), "odd");
    }
}
