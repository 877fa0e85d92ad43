//! The decision for one request.

use std::collections::BTreeMap;

use quota_semantics::{
    Name, Timestamp,
    admission::{self, Attempt, Denial, Limit, Operation},
    object::{GroupResource, Object},
    quantity::Quantity,
    quota::{LimitedResource, Spec},
    resource::ResourceList,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    cluster::{self, Cluster},
    vectors::{Case, same},
};

/// A quota, with Kubernetes' status as the limits in force.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Quota {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Name,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    hard: ResourceList,
    used: Option<ResourceList>,
}

impl Limit for Quota {
    fn name(&self) -> &Name {
        &self.metadata.name
    }

    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn hard(&self) -> &ResourceList {
        &self.status.hard
    }

    fn counted(&self, name: &Name) -> Option<Quantity> {
        self.status.used.as_ref()?.get(name).cloned()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    operation: String,
    group: String,
    resource: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    dry_run: bool,
    object: Option<Box<RawValue>>,
    old_object: Option<Box<RawValue>>,
}

/// The place of a charged quota, and its growth.
type Charge = (usize, ResourceList);

struct Outcome {
    evaluated: bool,
    result: Result<Vec<Charge>, Denial>,
    message: Option<String>,
}

pub(crate) fn run(case: &Case) -> Result<(), String> {
    let quotas: Vec<Quota> = case.read("quotas")?;
    let request: Request = case.read("request")?;
    let limited: Option<Vec<LimitedResource>> = case.read("limitedResources")?;
    let outcome = decide(case, &quotas, &request, &limited.unwrap_or_default())?;

    let expected = &case.expected;
    same("evaluated", &outcome.evaluated, &(expected["evaluated"] == true))?;
    same("allowed", &outcome.result.is_ok(), &(expected["allowed"] == true))?;
    let error = outcome.result.as_ref().err().map(|denial| {
        json!({
            "code": denial.code(),
            "message": outcome.message,
            "reason": denial.kubernetes_reason(),
        })
    });
    same("error", &error.unwrap_or_default(), &expected["error"])?;

    let charges = if request.dry_run { Vec::new() } else { outcome.result.unwrap_or_default() };
    let (writes, used) = charged(quotas, &charges)?;
    same("statusWrites", &writes, &expected["statusWrites"])?;
    same("used", &used, &expected["used"])
}

fn decide(
    case: &Case,
    quotas: &[Quota],
    request: &Request,
    limited: &[LimitedResource],
) -> Result<Outcome, String> {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().map_err(|_| "clock")?;
    let context = Cluster::read(case, now)?;
    let kind = GroupResource::new(&request.group, &request.resource);
    let read = |json: &Option<Box<RawValue>>| {
        cluster::object(&kind, json.as_ref().map_or("null", |json| json.get()))
    };
    let (object, old) = (read(&request.object)?, read(&request.old_object)?);
    let measure = |object: &Object| object.footprint(&kind, now, &context);
    let new = object.as_ref().map(measure).unwrap_or_default();
    let old_footprint = old.as_ref().map(measure);
    let operation: Operation = request.operation.parse().map_err(|_| "operation")?;

    let evaluated = admission::evaluated(
        operation,
        &request.namespace,
        &kind,
        &request.subresource,
        &new.traits,
        old_footprint.as_ref().map(|old| &old.traits),
    );
    if !evaluated {
        return Ok(Outcome { evaluated, result: Ok(Vec::new()), message: None });
    }
    let attempt = Attempt {
        kind: &kind,
        measured: false,
        operation,
        subresource: &request.subresource,
        new: &new,
        old: old_footprint.as_ref(),
        old_has_version: old.is_some_and(|old| !old.metadata().resource_version.is_empty()),
        requirements: &|names| object.as_ref()?.missing_requirements(names),
        context: &context,
    };
    let result = admission::evaluate(quotas, &attempt, limited).map(|charges| {
        let growth =
            |(name, growth, _): (&Name, &Quantity, &Quantity)| (name.clone(), growth.clone());
        let charged = charges.iter(quotas);
        charged.map(|(place, charge)| (place, charge.map(growth).collect())).collect()
    });
    let name = admission::name_in_messages(&request.name, object.as_ref().map(Object::metadata));
    let message = result.as_ref().err().map(|denial| denial.message(&kind, name));
    Ok(Outcome { evaluated, result, message })
}

/// What Kubernetes would write, and what is used afterwards.
fn charged(mut quotas: Vec<Quota>, charges: &[Charge]) -> Result<(Value, Value), String> {
    let mut writes = Vec::new();
    for (place, growth) in charges {
        let quota = &mut quotas[*place];
        let used = quota.status.used.get_or_insert_default();
        used.add(growth);
        writes.push(json!({ "quota": quota.metadata.name, "result": "ok", "used": used }));
    }
    let used: BTreeMap<&Name, &Option<ResourceList>> =
        quotas.iter().map(|quota| (&quota.metadata.name, &quota.status.used)).collect();
    let used = serde_json::to_value(used).map_err(|error| error.to_string())?;
    Ok((Value::Array(writes), used))
}
