//! What one object counts for.

use quota_semantics::Timestamp;

use super::{
    cluster::{self, Cluster},
    vectors::{Case, same_list},
};

pub(crate) fn run(case: &Case) -> Result<(), String> {
    let kind = cluster::kind(case);
    let now: Option<Timestamp> = case.read("now")?;
    let now = now.unwrap_or(Timestamp::EPOCH);
    let context = Cluster::read(case, now)?;
    let object = cluster::object(&kind, case.json("object"))?.ok_or("no object")?;

    let usage = object.footprint(&kind, now, &context).resources;
    same_list("usage", &usage, &case.expected["usage"])?;
    match case.expected.get("usageAfterApiDefaults") {
        Some(expected) => {
            let object = object.with_api_defaults();
            let usage = object.footprint(&kind, now, &context).resources;
            same_list("usage after defaults", &usage, expected)
        }
        None => Ok(()),
    }
}
