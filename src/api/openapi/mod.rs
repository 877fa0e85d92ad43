//! The description of the API: OpenAPI 3.1, derived from the route table.
//!
//! A route names its parameters and the schemas of its body and responses. Most schemas are derived from the wire types;
//! `schemas.json` holds the others, and `parameters.json` the parameters. Wherever a test of the API gets a response, the test checks it against its schema
//! (`tests/api/described.rs`).

use std::sync::LazyLock;

use quota_client::wire::{
    Cluster, CorrectionsAnswer, CorrectionsRequest, DeadLetter, Denial, DriftAnswer, DriftRequest,
    Entry, EventsAnswer, Explanation, Group, GroupExplanation, GroupUsage, GroupUsageHistory,
    HealRequest, Namespace, NamespaceCounts, NamespaceUsage, Object, Page, Problem, Quota,
    RelistAnswer, RelistRequest, RemoveRequest, ReplicatedLedger, Report, Reservation,
    SimulateRequest, Simulation, Status, Suggestions, TransferRequest, Usage, UsageHistory,
    Verdict,
};
use schemars::{Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Map, Value, json};

use super::{App, problem::CONTENT_TYPE};
use crate::routes::{Route, Spec};

static SCHEMAS: LazyLock<Value> = LazyLock::new(schemas);

static PARAMETERS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("parameters.json"))
        .expect("the parameters are part of the program, and tested")
});

/// What belongs together: a tag, its description, and parts of paths. A call has the first tag of which its path has a part.
const TAGS: [(&str, &str, &[&str]); 7] = [
    (
        "hooks",
        "What a hook calls before it creates something: reserve, commit and release; extend, check and batches if it \
         needs them. No other call is needed.",
        &["reservations", "reservations:batch", "check"],
    ),
    (
        "usage",
        "What counts, what made a number, and who was denied.",
        &["usage", "explain", "denials", "objects"],
    ),
    (
        "events",
        "What sources report, and whether it is right.",
        &["events", "dead-letters", "drift", "corrections", "relist"],
    ),
    ("ledger", "The entries.", &["entries", "watch", "backup"]),
    ("cluster", "The nodes of a cluster.", &["cluster"]),
    (
        "reports",
        "What was consumed, and what other limits would have done.",
        &["report", "simulate", "suggestions"],
    ),
    ("limits", "Quotas, groups and namespaces.", &["quotas", "groups", "namespaces"]),
];

/// The tag of the calls that have no part of their path in [`TAGS`].
const DAEMON: (&str, &str) = ("daemon", "The daemon itself.");

fn tag(path: &str) -> &'static str {
    let has = |parts: &[&str]| path.split('/').any(|segment| parts.contains(&segment));
    let found = TAGS.iter().find(|(_, _, parts)| has(parts));
    found.map_or(DAEMON.0, |(tag, _, _)| *tag)
}

/// The OpenAPI document of an API with these routes.
pub(super) fn document(routes: &[Route<App>]) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let spec = route.spec();
        let path = paths.entry(spec.path).or_insert_with(|| json!({}));
        path[spec.method.as_str().to_ascii_lowercase()] = operation(spec);
    }
    let tags = TAGS.iter().map(|(tag, about, _)| (*tag, *about));
    let tags: Vec<_> = tags
        .chain([DAEMON])
        .map(|(tag, about)| json!({"name": tag, "description": about}))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Quota Ledger",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        // No token is needed while no tokens are configured.
        "security": [{}, {"token": []}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": &*SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(spec: &Spec) -> Value {
    let described = &spec.operation;
    let mut parameters: Vec<_> = in_path(spec.path).collect();
    parameters.extend(described.query.iter().map(|name| in_query(name)));
    let mut answers: Map<_, _> = described
        .answers
        .iter()
        .map(|(status, content)| (status.to_string(), response(*status, content)))
        .collect();
    let problem = json!({"schema": reference("Problem")});
    answers.insert(
        "default".to_owned(),
        json!({"description": "Why the request was not carried out.", "content": {CONTENT_TYPE: problem}}),
    );
    let mut operation = json!({
        "operationId": described.id,
        "tags": [tag(spec.path)],
        "description": spec.about,
        "parameters": parameters,
        "responses": answers,
    });
    if let Some((media_types, schema)) = described.sends {
        let content = json!({"schema": reference(schema)});
        let content: Map<_, _> = media_types
            .iter()
            .map(|media_type| ((*media_type).to_owned(), content.clone()))
            .collect();
        operation["requestBody"] = json!({"required": described.needs_body, "content": content});
    }
    operation
}

fn in_path(path: &str) -> impl Iterator<Item = Value> {
    let names = path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| {
        let example = match name {
            "namespace" => "team-a",
            "uid" => "pod-1",
            _ => "compute",
        };
        json!({
            "name": name, "in": "path", "required": true, "example": example,
            "schema": {"type": "string", "minLength": 1},
        })
    })
}

/// The key of a declared parameter in the table of parameters, and whether the suffix `!` makes it required.
fn parameter_key(declared: &'static str) -> (&'static str, bool) {
    match declared.strip_suffix('!') {
        Some(key) => (key, true),
        None => (declared, false),
    }
}

/// The name that a declared parameter has in a query.
pub(super) fn parameter_name(declared: &'static str) -> &'static str {
    let (key, _) = parameter_key(declared);
    PARAMETERS[key]["name"].as_str().unwrap_or(key)
}

fn in_query(declared: &'static str) -> Value {
    let (key, required) = parameter_key(declared);
    let mut parameter = PARAMETERS[key].clone();
    parameter["name"] = parameter_name(declared).into();
    parameter["in"] = "query".into();
    parameter["required"] = required.into();
    parameter
}

/// A response: a schema, a media type, or empty.
fn response(status: u16, content: &str) -> Value {
    let description = http::StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or_default();
    match content {
        "" => json!({ "description": description }),
        media_type if media_type.contains('/') => {
            json!({"description": description, "content": {media_type: {"schema": {"type": "string"}}}})
        }
        schema => json!({
            "description": description,
            "content": {"application/json": {"schema": reference(schema)}},
        }),
    }
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

// The schemas of the description: those of the wire types, and those of `schemas.json`.
//
// `schemas.json` has the schemas without a wire type, such as requests for which the daemon accepts more than the client
// writes, and facts that the types do not express: examples, and how items of lists differ from whole responses.

/// The lists: their pages, the schemas of their items, and what they list.
const PAGES: [(&str, &str, &str); 8] = [
    ("OverviewPage", "NamespaceOverview", "Namespaces, the fullest first."),
    ("QuotaPage", "QuotaItem", "A page of quotas."),
    ("GroupPage", "GroupItem", "A page of groups."),
    (
        "ReservationPage",
        "ReservationItem",
        "A page of reservations: pending and committed ones in the order of their grants, others in the order of their ends.",
    ),
    ("DenialPage", "Denial", "The latest denials, newest first."),
    ("ObjectPage", "Object", "A page of objects."),
    ("EntryPage", "Entry", "A page of entries."),
    ("DeadLetterPage", "DeadLetter", "Rejected events, newest first."),
];

/// All schemas, by name.
fn schemas() -> Value {
    let mut derived = Map::new();
    macro_rules! derive {
        ($settings:expr, $($type:ty),* $(,)?) => {
            let mut generator = $settings.into_generator();
            $(generator.subschema_for::<$type>();)*
            derived.extend(generator.take_definitions(true));
        };
    }
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .with_transform(RecursiveTransform(plain));
    derive!(
        settings.clone().for_serialize(),
        Cluster,
        CorrectionsAnswer,
        DeadLetter,
        Denial,
        DriftAnswer<'_>,
        Entry,
        EventsAnswer,
        Explanation,
        Group,
        GroupExplanation,
        GroupUsage,
        GroupUsageHistory,
        Namespace,
        NamespaceCounts,
        NamespaceUsage,
        Object<'_>,
        Page<()>,
        Problem,
        Quota<'_>,
        RelistAnswer,
        ReplicatedLedger,
        Report,
        Reservation<'_>,
        Simulation,
        Status,
        Suggestions,
        Usage,
        UsageHistory,
        Verdict<'_>,
    );
    derive!(
        settings.for_deserialize(),
        CorrectionsRequest<'_>,
        DriftRequest<'_>,
        HealRequest,
        RelistRequest,
        RemoveRequest,
        SimulateRequest,
        TransferRequest,
    );
    let page = derived.remove("Page").unwrap_or_default();
    let mut schemas = Value::Object(derived);
    add_items(&mut schemas);
    add_pages(&mut schemas, &page);
    let others = serde_json::from_str(include_str!("schemas.json"))
        .expect("the schemas are part of the program, and tested");
    json_patch::merge(&mut schemas, &others);
    schemas
}

/// Types leave optional what only items of lists lack: a whole answer has it. Items leave out what the whole answer says
/// of all, and what only a single reservation says.
fn add_items(schemas: &mut Value) {
    let whole = ["asOf", "lagging"];
    let single = ["quotas", "groups", "unlimited", "warnings"];
    require(&mut schemas["Group"], "createdTime");
    let limit = &mut schemas["GroupUsage"]["properties"]["resources"]["items"];
    require(limit, "guaranteedToOthers");
    let mut granted = without(&schemas["Reservation"], &whole);
    schemas["ReservationItem"] = without(&granted, &single);
    require(&mut granted, "status");
    schemas["BatchGranted"] = granted;
    schemas["QuotaItem"] = without(&schemas["Quota"], &whole);
    schemas["GroupItem"] = without(&schemas["Group"], &whole);
    for name in ["Quota", "Group", "Reservation"] {
        require(&mut schemas[name], "asOf");
    }
}

/// The schema, with a property required.
fn require(schema: &mut Value, name: &str) {
    if let Some(required) = schema["required"].as_array_mut() {
        required.push(name.into());
    }
}

/// The schema without some of its properties.
fn without(schema: &Value, names: &[&str]) -> Value {
    let mut schema = schema.clone();
    for name in names {
        if let Some(properties) = schema["properties"].as_object_mut() {
            properties.remove(*name);
        }
    }
    schema
}

fn add_pages(schemas: &mut Value, page: &Value) {
    for (name, item, about) in PAGES {
        let mut page = page.clone();
        page["properties"]["items"]["items"] = reference(item);
        page["description"] = about.into();
        schemas[name] = page;
    }
    let total = json!({"type": "integer", "minimum": 0, "description": "The number of namespaces on all pages."});
    schemas["OverviewPage"]["properties"]["total"] = total;
    schemas["OverviewPage"]["properties"]["counts"] = reference("NamespaceCounts");
    for name in ["total", "counts"] {
        require(&mut schemas["OverviewPage"], name);
    }
}

/// Makes a schema of a type as plain as generators of clients need it: fields are absent rather than null, enumerations
/// list their values, and integers have no formats of Rust. Of a description only the first paragraph is for callers.
fn plain(schema: &mut Schema) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    schema.remove("default");
    if schema.get("format").is_some_and(|format| format != "date-time") {
        schema.remove("format");
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        let first = description.split("\n\n").next().unwrap_or_default();
        *description = first.replace('\n', " ");
    }
    if let Some(Value::Array(types)) = schema.get("type")
        && let [of, null] = &types[..]
        && null == "null"
    {
        schema.insert("type".to_owned(), of.clone());
    }
    if let Some(Value::Array(either)) = schema.get("anyOf")
        && let [Value::Object(of), null] = &either[..]
        && null["type"] == "null"
    {
        let of = of.clone();
        schema.remove("anyOf");
        schema.extend(of);
    }
    if let Some(Value::Array(variants)) = schema.get("oneOf") {
        let values: Vec<_> = variants.iter().map(|variant| variant["const"].clone()).collect();
        schema.remove("oneOf");
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), values.into());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use quota_testkit::docs::documented_page;

    use super::*;
    use crate::api::routes::{document, routes};

    fn references<'v>(value: &'v Value, found: &mut BTreeSet<&'v str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_schema_is_used() {
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for reference in &found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        for name in SCHEMAS.as_object().unwrap().keys() {
            let reference = format!("#/components/schemas/{name}");
            assert!(found.contains(reference.as_str()), "{name} is not used");
        }
    }

    #[test]
    fn a_call_has_the_tag_of_its_path() {
        for (path, expected) in [
            ("/v1/namespaces/{namespace}/reservations/{uid}/commit", "hooks"),
            ("/v1/reservations:batch", "hooks"),
            ("/v1/groups/{name}/usage", "usage"),
            ("/v1/groups/{name}", "limits"),
            ("/v1/namespaces/{namespace}", "limits"),
            ("/v1/report", "reports"),
            ("/v1/usage/history", "usage"),
            ("/v1/status", "daemon"),
        ] {
            assert_eq!(tag(path), expected, "{path}");
        }
        let used: BTreeSet<_> = routes().iter().map(|route| tag(route.spec().path)).collect();
        assert_eq!(used.len(), TAGS.len() + 1, "{used:?}");
    }

    /// The JSON of a value, with one line for each of the values in its outer levels.
    fn lines(value: &Value, levels: usize) -> String {
        let Some(map) = value.as_object().filter(|_| levels > 0) else {
            return value.to_string();
        };
        let lines: Vec<_> = map
            .iter()
            .map(|(name, value)| format!("{}: {}", json!(name), lines(value, levels - 1)))
            .collect();
        format!("{{\n{}\n}}", lines.join(",\n"))
    }

    /// One line for each operation and each schema. `UPDATE_DOCS=1 cargo test --lib documented` writes it anew.
    #[test]
    fn the_documented_description_is_this_one() {
        documented_page("openapi.json", &format!("{}\n", lines(&document(), 3)));
    }

    #[test]
    fn every_route_is_described() {
        let mut ids = BTreeSet::new();
        for route in routes() {
            let spec = route.spec();
            let described = &spec.operation;
            let place = format!("{} {}", spec.method, spec.path);
            assert!(!described.answers.is_empty(), "{place} says no answer");
            assert!(!described.id.is_empty() && ids.insert(described.id), "{place}");
            for name in described.query {
                let parameter = &PARAMETERS[name.trim_end_matches('!')];
                assert!(parameter.is_object(), "{place}: {name}");
            }
        }
    }
}
