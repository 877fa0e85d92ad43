//! `get`: lists, as tables or as the API gives them.

mod entries;
mod objects;
mod quotas;
mod reservations;
mod usage;

pub(crate) use quotas::{amounts, ask as ask_quotas, listed as listed_quotas, plain, scopes};

use super::{args::Get, failure::Outcome, session::Session};

/// Shows what was asked for.
pub(crate) fn run(session: &Session, what: &Get) -> Outcome {
    match what {
        Get::Quota { name } => quotas::get(session, name.as_deref()),
        Get::Reservations { uid } => reservations::get(session, uid.as_deref()),
        Get::Usage { at, sequence } => usage::get(session, *at, *sequence),
        Get::Objects { resource, limit } => objects::get(session, resource.as_deref(), *limit),
        Get::Entries(range) => entries::get(session, *range),
        Get::DeadLetters { limit } => entries::dead_letters(session, *limit),
    }
}
