//! `get group`: what each group's members take of its limits together.

use quota_client::wire::Group;
use serde_json::Value;

use super::List;
use crate::{
    address::Address,
    client::read,
    failure::Outcome,
    group,
    output::note,
    session::{Session, text},
    table::Table,
};

/// One group, or all.
pub(super) struct Groups<'a> {
    pub(super) name: Option<&'a str>,
}

impl List for Groups<'_> {
    fn fetch(&self, session: &Session) -> Outcome<Value> {
        match self.name {
            Some(name) => session.client.get(&group::address(name)),
            None => session.client.list(&Address::of(["v1", "groups"]), None),
        }
    }

    fn name(&self, group: &Value) -> String {
        format!("{}/{}", group::KIND, text(group, "/name"))
    }

    fn table(&self, _: &Session, groups: &[Value], wide: bool) -> Outcome<Table> {
        let groups: Vec<Group> = groups.iter().map(read).collect::<Outcome<_>>()?;
        Ok(group::table(&groups, wide))
    }

    fn note_empty(&self, _: &Session) {
        note("No resources found");
    }
}
