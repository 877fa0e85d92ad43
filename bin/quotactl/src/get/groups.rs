//! `get group`: what each group's members take of its limits together.

use quota_client::http::Address;
use quota_client::wire::Group;
use serde_json::Value;

use super::List;
use crate::{
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
    /// Only those whose labels match: a selector as Kubernetes has them.
    pub(super) selector: Option<&'a str>,
}

impl List for Groups<'_> {
    fn fetch(&self, session: &Session) -> Outcome<Value> {
        match self.name {
            Some(name) => session.client.get(&group::address(name)),
            None => {
                let all = Address::of(["v1", "groups"]);
                let chosen = all.with_some("labelSelector", self.selector);
                session.client.list(&chosen, None)
            }
        }
    }

    fn name(&self, group: &Value) -> String {
        format!("{}/{}", group::KIND, text(group, "/name"))
    }

    fn table(&self, _: &Session, groups: &[Value], wide: bool) -> Outcome<Table> {
        let groups: Vec<Group> = groups.iter().map(read).collect::<Outcome<_>>()?;
        Ok(group::table(&groups, wide))
    }

    /// Its members may be any namespaces.
    fn watched<'s>(&self, _: &'s Session) -> Option<&'s str> {
        None
    }

    fn note_empty(&self, _: &Session) {
        note("No resources found");
    }
}
