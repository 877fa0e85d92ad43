//! Objects that are copied from the state, a few at a time, to compute their figures while the state goes on.

use quota_core::state::{self, QuotasView};
use quota_semantics::Name;

use super::{
    kind::Kind,
    resource::View,
    scope::{Position, Scope},
};
use crate::{
    auth::Reader,
    fairness::{BYTES_PER_AMOUNT, Turn},
    render,
};

/// Groups and members of them that are copied while the state is locked once.
const GROUP_PLACES: usize = 2_000;
/// Amounts of the groups that are copied at once: more than these are rarely used.
const GROUP_AMOUNTS: usize = 20_000;

/// Objects copied from the state; their figures are computed later, outside the lock.
pub(super) enum Copied {
    Quotas(QuotasView),
    Groups(Vec<render::group::Copied>),
}

impl Copied {
    /// Only the objects that may belong to a scope, regardless of their labels.
    pub(super) fn within(mut self, scope: &Scope) -> Self {
        match &mut self {
            Self::Quotas(quotas) => {
                quotas.retain(|quota| scope.is_about(Kind::Quota, &quota.namespace, &quota.name));
            }
            Self::Groups(groups) => {
                groups.retain(|copied| scope.is_about(Kind::Group, "", &copied.group.record.name));
            }
        }
        self
    }

    /// How many objects they are, and how many amounts they show and were copied for them; with all that they hold, or
    /// only with their own numbers.
    pub(super) fn size(&self, whole: bool) -> (usize, usize) {
        match self {
            Self::Quotas(quotas) => {
                let metadata = quotas.metadata_bytes() / BYTES_PER_AMOUNT;
                let shown = if whole { quotas.amounts() } else { quotas.limits() };
                (quotas.len(), shown + quotas.sums() + metadata)
            }
            Self::Groups(groups) => {
                let amounts = |copied: &render::group::Copied| match whole {
                    true => copied.amounts(),
                    false => render::group::amounts_of(&copied.group),
                };
                (groups.len(), groups.iter().map(amounts).sum())
            }
        }
    }

    /// Their views, made with pauses: with all that they hold, or only with their own numbers.
    pub(super) fn views(self, whole: bool, turn: &Turn) -> Box<dyn Iterator<Item = View> + '_> {
        match self {
            Self::Quotas(quotas) => Box::new(quotas.into_views(whole).map(View::Quota)),
            Self::Groups(groups) => {
                let views = groups.into_iter().map(move |copied| match whole {
                    true => copied.seen(|| turn.pause()),
                    false => copied.without_members(),
                });
                Box::new(views.map(View::Group))
            }
        }
    }
}

/// Objects of a scope, limited by `limit` and by their work; and the position after them, if more follow.
pub(super) fn some_of(
    state: &state::State,
    scope: &Scope,
    after: &Position,
    limit: usize,
) -> (Copied, Option<Position>) {
    match scope.kind {
        Kind::Quota => {
            let namespace = scope.namespace.as_deref();
            let after = (&*after.0, &*after.1);
            let (quotas, more) = state.quotas_page(namespace, Some(after), limit);
            let last = quotas.records().next_back().filter(|_| more);
            let next = last.map(|quota| Position(quota.namespace.clone(), quota.name.clone()));
            (Copied::Quotas(quotas), next)
        }
        Kind::Group => {
            let (groups, last) = some_groups_of(state, &after.1, limit, &scope.reader);
            let next = last.map(|last| Position(Name::default(), last));
            (Copied::Groups(groups), next)
        }
    }
}

/// The groups after a name that the caller may read, with their members, limited by `limit` and by their work; and the
/// last of those that were looked at, if there are more.
fn some_groups_of(
    state: &state::State,
    after: &str,
    limit: usize,
    reader: &Reader,
) -> (Vec<render::group::Copied>, Option<Name>) {
    let (page, more) = state.groups_page(after, limit);
    let mut copied = Vec::new();
    let (mut places, mut amounts, mut last) = (0, 0, None);
    for group in page {
        if places > GROUP_PLACES || amounts > GROUP_AMOUNTS {
            return (copied, last);
        }
        last = Some(group.record.name.clone());
        // The members are looked at, whether the caller may read them or not.
        places += 1 + if reader.reads_all() { 0 } else { group.members };
        if let Some(group) = render::group::Copied::for_reader(state, group, reader) {
            places += group.places();
            amounts += group.amounts();
            copied.push(group);
        }
    }
    (copied, last.filter(|_| more))
}
