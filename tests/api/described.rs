//! Each answer of the API is as its description (`/openapi.json`) says.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex},
};

use jsonschema::Validator;
use quotad::api;
use serde_json::{Value, json};

/// The description, with objects closed: a field that it does not know is an error here.
static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| {
    let mut document = api::document();
    close(&mut document["components"]["schemas"]);
    document
});

static VALIDATORS: LazyLock<Mutex<HashMap<String, &'static Validator>>> =
    LazyLock::new(Mutex::default);

fn close(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(close);
            if map.get("properties").is_some_and(Value::is_object)
                && !map.contains_key("additionalProperties")
            {
                map.insert("additionalProperties".to_owned(), false.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// The validator of a schema of the description.
fn validator(reference: &str) -> &'static Validator {
    let mut validators = VALIDATORS.lock().unwrap();
    validators.entry(reference.to_owned()).or_insert_with(|| {
        let schema = json!({"$ref": reference, "components": DESCRIPTION["components"]});
        let validator = jsonschema::draft202012::new(&schema);
        Box::leak(Box::new(validator.unwrap()))
    })
}

/// The route of a path, as described: of several, the one with the fewest variable parts.
pub(crate) fn route(path: &str) -> Option<String> {
    let parts: Vec<_> = path.split('/').collect();
    let fits = |route: &&String| {
        let mut own = route.split('/').zip(&parts);
        let fits =
            |(own, part): (&str, &&str)| own == *part || own.starts_with('{') && !part.is_empty();
        route.split('/').count() == parts.len() && own.all(fits)
    };
    let routes = DESCRIPTION["paths"].as_object().unwrap().keys();
    routes.filter(fits).min_by_key(|route| route.matches('{').count()).cloned()
}

/// Demands that an answer to a call of this route is as described.
pub(crate) fn check(method: &str, route: &str, status: u16, content_type: &str, body: &[u8]) {
    let method = match method {
        "HEAD" => return,
        method => method.to_ascii_lowercase(),
    };
    let answers = &DESCRIPTION["paths"][route][method.as_str()]["responses"];
    let place = format!("{method} {route}: {status}");
    if answers.is_null() {
        // There is no such route, or not with this method.
        assert!(matches!(status, 403..=405), "{place} is not described");
        return;
    }
    let answer = match &answers[status.to_string()] {
        Value::Null if status >= 400 => &answers["default"],
        answer => answer,
    };
    assert!(answer.is_object(), "{place} is not described");
    let Some(content) = answer["content"].as_object() else {
        assert!(body.is_empty(), "{place} is described to have no body");
        return;
    };
    let essence = content_type.split(';').next().unwrap_or_default();
    let described = content.get(essence);
    let schema =
        &described.unwrap_or_else(|| panic!("{place}: {essence} is not described"))["schema"];
    let Some(reference) = schema["$ref"].as_str() else {
        return;
    };
    let body: Value = serde_json::from_slice(body).unwrap();
    let wrong: Vec<_> = validator(reference)
        .iter_errors(&body)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{place} is not as described: {wrong:#?}\n{body:#}");
}

#[test]
fn what_is_not_as_described_is_found() {
    let head = json!({"sequence": 1, "time": "2026-01-01T00:00:00Z"});
    let right = json!({"items": [], "asOf": head});
    assert!(validator("#/components/schemas/QuotaPage").is_valid(&right));
    for wrong in [
        json!({"items": []}),
        json!({"items": [], "asOf": head, "more": 1}),
        json!({"items": [{}], "asOf": head}),
    ] {
        assert!(!validator("#/components/schemas/QuotaPage").is_valid(&wrong), "{wrong}");
    }
}

#[test]
fn examples_are_as_described() {
    let schemas = DESCRIPTION["components"]["schemas"].as_object().unwrap();
    let mut found = Vec::new();
    for (name, schema) in schemas {
        for example in schema["examples"].as_array().into_iter().flatten() {
            let validator = validator(&format!("#/components/schemas/{name}"));
            let wrong: Vec<_> = validator
                .iter_errors(example)
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(wrong.is_empty(), "{name}: {wrong:#?}");
            found.push(name.as_str());
        }
    }
    for of_hooks in [
        "ReserveRequest",
        "CommitRequest",
        "ExtendRequest",
        "BatchRequest",
        "Reservation",
        "Problem",
    ] {
        assert!(found.contains(&of_hooks), "{of_hooks}: {found:?}");
    }
}
