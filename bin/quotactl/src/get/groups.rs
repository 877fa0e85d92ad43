//! `get group`: the usage of each group by all its members.

use quota_client::{http::Address, wire::Group};
use serde_json::Value;

use super::{Item, List};
use crate::{args::Named, failure::Outcome, group, output::note, session::Session, table::Table};

/// The list of groups, or one group.
pub(super) struct Groups<'a>(pub(super) &'a Named);

impl Item for Group {
    fn identity(&self) -> String {
        format!("{}/{}", self.name, self.uid)
    }

    fn strip_head(&mut self) {
        (self.as_of, self.lagging) = (None, false);
    }
}

impl List for Groups<'_> {
    type Item = Group;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let Named { name, selector } = self.0;
        match name {
            Some(name) => session.client.get_json(&group::address(name)),
            None => {
                let all = Address::of(["v1", "groups"]);
                let chosen = all.with_some("labelSelector", selector.as_ref());
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
