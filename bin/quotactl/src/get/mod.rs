//! `get`: lists, as tables or as the API gives them.

mod changes;
mod entries;
mod groups;
mod objects;
mod quotas;
mod reservations;
mod usage;

pub(crate) use quotas::{ask as ask_quotas, listed as listed_quotas, scopes};

use serde_json::Value;

use super::{
    args::{Get, GetArgs},
    failure::{Failure, Outcome},
    output::{Output, sort},
    session::Session,
    table::Table,
    watch,
};

/// A list that the daemon gives, or one thing of it.
trait List {
    /// Asks the daemon.
    fn fetch(&self, session: &Session) -> Outcome<Value>;

    /// Kind and name of an item.
    fn name(&self, item: &Value) -> String;

    /// Items as a table.
    fn table(&self, session: &Session, items: &[Value], wide: bool) -> Outcome<Table>;

    /// Says that there are no items.
    fn note_empty(&self, session: &Session) {
        session.note_empty();
    }

    /// The namespace whose entries change it; none: those of all do.
    fn watched<'s>(&self, session: &'s Session) -> Option<&'s str> {
        (!session.scope.all).then(|| session.scope.namespace())
    }

    /// What has become of an item that the list does not hold any more, if the daemon still knows.
    fn ended(&self, _session: &Session, _item: &Value) -> Outcome<Option<Value>> {
        Ok(None)
    }

    /// What of the items is new.
    fn changes(&self, before: &[Value], now: &[Value]) -> Vec<Value> {
        changes::items(before, now)
    }
}

/// Shows what was asked for.
pub(crate) fn run(session: &Session, args: &GetArgs) -> Outcome {
    let list: Box<dyn List + '_> = match &args.what {
        Get::Quota { name, selector } => Box::new(quotas::Quotas {
            name: name.as_deref(),
            selector: selector.as_deref(),
        }),
        Get::Group { name, selector } => Box::new(groups::Groups {
            name: name.as_deref(),
            selector: selector.as_deref(),
        }),
        Get::Reservations { uid } => Box::new(reservations::Reservations {
            uid: uid.as_deref(),
        }),
        Get::Usage { at, sequence, all } => Box::new(usage::UsageOf {
            at: *at,
            sequence: *sequence,
            all: *all,
        }),
        Get::Objects { resource, limit } => Box::new(objects::Objects {
            resource: resource.as_deref(),
            limit: *limit,
        }),
        Get::Entries(range) => Box::new(entries::Entries(*range)),
        Get::DeadLetters { limit } => Box::new(entries::DeadLetters { limit: *limit }),
    };
    let fetch = || {
        let mut answer = list.fetch(session)?;
        if let Some(path) = &args.sort_by {
            sort(&mut answer, path)?;
        }
        session.note_lag(&answer);
        Ok(answer)
    };
    match (&args.what, args.watch) {
        (_, false) => {
            let answer = fetch()?;
            show(session, &session.output, &*list, &answer)?;
            if let Get::Entries(range) = &args.what {
                entries::note_more(range, &answer);
            }
            Ok(())
        }
        (Get::Entries(_), true) => {
            let answer = fetch()?;
            if !items_of(&answer).is_empty() {
                show(session, &session.output, &*list, &answer)?;
            }
            watch::run(session, entries::next(&answer))
        }
        (Get::Usage { at, sequence, .. }, true) if at.is_some() || sequence.is_some() => Err(
            Failure::usage("--watch shows what changes from now on: it does not go with the past"),
        ),
        (_, true) => changes::follow(session, &*list, fetch),
    }
}

fn show(session: &Session, output: &Output, list: &dyn List, answer: &Value) -> Outcome {
    let items = items_of(answer);
    if items.is_empty() {
        list.note_empty(session);
    }
    let table = match output.wide() {
        Some(wide) => list.table(session, items, wide)?,
        None => Table::new(&[]),
    };
    let names = || items.iter().map(|item| list.name(item)).collect();
    output.answer(answer, names, |_| table)
}

/// The items of a list, or the one thing that the answer is.
fn items_of(answer: &Value) -> &[Value] {
    match answer.get("items").and_then(Value::as_array) {
        Some(items) => items,
        None => std::slice::from_ref(answer),
    }
}

/// A field as text: the API writes quantities as strings, manifests may hold numbers.
pub(crate) fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
