//! The schemas of the description: those of the wire types, and those of `schemas.json`.
//!
//! `schemas.json` has the schemas without a wire type, such as requests for which the daemon accepts more than the client
//! writes, and facts that the types do not express: examples, and how items of lists differ from whole responses.

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

use super::reference;

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
pub(super) fn schemas() -> Value {
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
