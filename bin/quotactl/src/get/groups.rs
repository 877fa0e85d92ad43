//! `get group`: the usage of each group by all its members.

use quota_client::{http::Address, wire::Group};
use serde_json::Value;

use super::{Item, List};
use crate::{
    args::{GroupsOf, Named},
    failure::{Exit, Failure, Outcome},
    group,
    output::note,
    session::Session,
    table::Table,
};

/// The list of groups, or one group.
pub(super) struct Groups<'a>(pub(super) &'a GroupsOf);

impl Item for Group {
    fn identity(&self) -> String {
        format!("{}/{}", self.name, self.uid)
    }

    fn strip_head(&mut self) {
        (self.as_of, self.lagging) = (None, false);
    }
}

impl Groups<'_> {
    /// One group of the past, out of the list of that time.
    fn one(&self, session: &Session, name: &str) -> Outcome<Value> {
        let all = self.0.when.of(Address::of(["v1", "groups"]));
        let list = session.client.list_json(&all, None)?;
        let groups = list["items"].as_array().into_iter().flatten();
        let mut found = groups.filter(|group| group["name"] == name);
        let group = found.next().cloned();
        group.ok_or_else(|| {
            Failure::new(
                Exit::NotFound,
                format!("there was no group {name} at that time"),
            )
        })
    }
}

impl List for Groups<'_> {
    type Item = Group;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let GroupsOf { named, when } = self.0;
        let Named { name, selector } = named;
        match name {
            Some(name) if when.is_now() => session.client.get_json(&group::address(name)),
            Some(name) => self.one(session, name),
            None => {
                let all = Address::of(["v1", "groups"]);
                let chosen = when.of(all.with_some("labelSelector", selector.as_ref()));
                session.client.list_json(&chosen, None)
            }
        }
    }

    fn name(&self, group: &Group) -> String {
        format!("{}/{}", group::KIND, group.name)
    }

    fn table(&self, _: &Session, groups: &[Group], wide: bool) -> Table {
        group::table(groups, wide)
    }

    /// Any namespace may be a member, so the entries of all namespaces matter.
    fn watched<'s>(&self, _: &'s Session) -> Option<&'s str> {
        None
    }

    fn note_empty(&self, _: &Session) {
        note("No resources found");
    }
}
