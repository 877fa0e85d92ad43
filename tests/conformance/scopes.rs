//! Which objects a quota is for.

use quota_semantics::{
    Timestamp,
    object::{Context, Evaluator, Traits},
    quota::{
        ScopeExpression, Spec,
        scopes::{self, Scope},
    },
    resource::ResourceList,
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    cluster::{self, Cluster},
    vectors::{Case, same, same_text},
};

/// A ResourceQuota, with the status that Kubernetes' code looks at.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Quota {
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    hard: ResourceList,
}

pub(crate) fn run(case: &Case) -> Result<(), String> {
    let context = Cluster::read(case, Timestamp::EPOCH)?;
    match case.text("op").as_str() {
        "matchingScopes" => matching_scopes(case),
        "quotaMatches" => quota_matches(case, &context),
        "matchingResources" => matching_resources(case, &context),
        "uncovered" => uncovered(case),
        other => Err(format!("unknown op {other:?}")),
    }
}

fn traits(case: &Case) -> Result<Traits, String> {
    let object = cluster::object(&cluster::kind(case), case.json("object"))?;
    Ok(object.ok_or("no object")?.traits())
}

fn expressions(case: &Case, key: &str) -> Result<Vec<ScopeExpression>, String> {
    let expressions: Option<Vec<ScopeExpression>> = case.read(key)?;
    Ok(expressions.unwrap_or_default())
}

fn matching_scopes(case: &Case) -> Result<(), String> {
    let selectors = expressions(case, "selectors")?;
    let all = selectors.iter().map(Scope::from);
    match scopes::matching(all, &traits(case)?) {
        Ok(matching) => same_scopes("matched", &matching, &case.expected["matched"]),
        Err(error) => same_text("error", &error.to_string(), &case.expected["error"]),
    }
}

fn same_scopes(what: &str, ours: &[Scope<'_>], theirs: &Value) -> Result<(), String> {
    let theirs: Vec<ScopeExpression> =
        serde_json::from_value(theirs.clone()).map_err(|error| error.to_string())?;
    let theirs: Vec<Scope<'_>> = theirs.iter().map(Scope::from).collect();
    same(what, &ours, &theirs.as_slice())
}

fn quota_matches(case: &Case, context: &dyn Context) -> Result<(), String> {
    let quota: Quota = case.read("quota")?;
    let kind = cluster::kind(case);
    let names = quota.status.hard.names().map(quota_semantics::Name::as_str);
    let owned = Evaluator::of(&kind).matching(names, context);
    match scopes::matches(&quota.spec, &traits(case)?) {
        Ok(all_match) => same(
            "matches",
            &Some(all_match && !owned.is_empty()),
            &case.expected["matches"].as_bool(),
        ),
        Err(error) => same_text("error", &error.to_string(), &case.expected["error"]),
    }
}

fn matching_resources(case: &Case, context: &dyn Context) -> Result<(), String> {
    let names: Vec<String> = case.read("resourceNames")?;
    let kind = cluster::kind(case);
    let matching = Evaluator::of(&kind).matching(names.iter().map(String::as_str), context);
    let theirs: Vec<&str> = case.expected["matching"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    same("matching", &matching, &theirs)
}

fn uncovered(case: &Case) -> Result<(), String> {
    // No object is given: any pod or claim will do, since only their kind is requested.
    let traits = match Evaluator::of(&cluster::kind(case)) {
        Evaluator::Pods => Traits::Pod(Default::default()),
        Evaluator::VolumeClaims => Traits::VolumeClaim { attributes_classes: Vec::new() },
        _ => Traits::Plain,
    };
    let limited = expressions(case, "limitedScopes")?;
    let limited: Vec<Scope<'_>> = limited.iter().map(Scope::from).collect();
    let covering = expressions(case, "quotaScopes")?;
    let covering: Vec<&str> = covering.iter().map(|it| it.scope_name.as_str()).collect();
    let open = scopes::uncovered(&limited, &covering, &traits);
    same_scopes("uncovered", &open, &case.expected["uncovered"])
}
