//! What a quota demands of every container.

use super::{
    cluster,
    vectors::{Case, same},
};

pub(crate) fn run(case: &Case) -> Result<(), String> {
    let required: Vec<String> = case.read("required")?;
    let required: Vec<&str> = required.iter().map(String::as_str).collect();
    let object = cluster::object(&cluster::kind(case), case.json("object"))?.ok_or("no object")?;
    let missing = object.missing_requirements(&required);
    same("error", &missing.as_deref(), &case.expected["error"].as_str())
}
