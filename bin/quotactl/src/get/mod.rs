//! `get`: lists, as tables or as the API returns them.

mod changes;
mod lists;
mod quotas;

pub(crate) use quotas::{fetch as fetch_quotas, scopes};

use quota_client::wire::AsOf;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    args::{Get, GetArgs},
    client::read,
    failure::{Failure, Outcome},
    output::{Output, sort},
    session::Session,
    table::Table,
    watch,
};

/// An item of a list.
pub(crate) trait Item: Clone + PartialEq + Serialize + DeserializeOwned {
    /// A key that identifies the item in the next response.
    fn identity(&self) -> String;

    /// Removes the position of the ledger, which changes with every entry.
    fn strip_head(&mut self) {}
}

/// A list, or one item of it.
pub(crate) trait List {
    /// The type of the items.
    type Item: Item;

    /// Requests the list. Returns the received JSON, which is sorted and printed.
    fn fetch(&self, session: &Session) -> Outcome<Value>;

    /// The kind and name of an item.
    fn name(&self, item: &Self::Item) -> String;

    /// The table of items.
    fn table(&self, session: &Session, items: &[Self::Item], wide: bool) -> Table;

    /// Reports that there are no items.
    fn note_empty(&self, session: &Session) {
        session.note_empty();
    }

    /// The namespace whose entries may change the list; none: those of all namespaces.
    fn watched<'s>(&self, session: &'s Session) -> Option<&'s str> {
        session.scope.listed()
    }

    /// The last state of an item that is no longer in the list, if the daemon still has it.
    fn ended(&self, _session: &Session, _item: &Self::Item) -> Outcome<Option<Self::Item>> {
        Ok(None)
    }

    /// The new or changed items.
    fn changes(&self, before: &[Self::Item], now: &[Self::Item]) -> Vec<Self::Item> {
        changes::items(before, now)
    }
}

/// The response to a [`List`].
struct Listing<T> {
    /// The received JSON.
    json: Value,
    items: Vec<T>,
    head: Head,
}

/// The fields of every response besides its items.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Head {
    #[serde(rename = "continue")]
    next: Option<String>,
    as_of: Option<AsOf>,
    lagging: bool,
}

impl<T: DeserializeOwned> Listing<T> {
    fn read(json: Value) -> Outcome<Self> {
        #[derive(Deserialize)]
        struct Items<T> {
            items: Vec<T>,
        }
        let items = match json.get("items") {
            Some(_) => read::<Items<T>>(&json)?.items,
            None => vec![read(&json)?],
        };
        let head = read(&json)?;
        Ok(Self { json, items, head })
    }
}

/// Prints the list, and with `--watch` its changes.
pub(crate) fn run(session: &Session, args: &GetArgs) -> Outcome {
    match &args.what {
        Get::Quota(named) => show_or_follow(session, args, &quotas::Quotas(named)),
        Get::Group(list) if args.watch && !list.when.is_now() => Err(of_the_past()),
        Get::Group(list) => show_or_follow(session, args, &lists::Groups(list)),
        Get::Namespaces(list) if args.watch && !list.when.is_now() => Err(of_the_past()),
        Get::Namespaces(list) => show_or_follow(session, args, list),
        Get::Denials(list) => show_or_follow(session, args, list),
        Get::Reservations(list) => show_or_follow(session, args, list),
        Get::Usage(list) if args.watch && !list.when.is_now() => Err(of_the_past()),
        Get::Usage(list) => show_or_follow(session, args, list),
        Get::Objects(list) => show_or_follow(session, args, list),
        Get::Entries(range) => {
            let listing = fetch(session, args, range)?;
            if args.watch {
                if !listing.items.is_empty() {
                    show(session, &session.output, range, &listing)?;
                }
                return watch::run(session, lists::behind(range, &listing));
            }
            show(session, &session.output, range, &listing)?;
            lists::note_more(range, &listing);
            Ok(())
        }
        Get::DeadLetters(list) => show_or_follow(session, args, list),
    }
}

fn of_the_past() -> Failure {
    Failure::usage("--watch shows what changes from now on: it does not go with the past")
}

fn show_or_follow<L: List>(session: &Session, args: &GetArgs, list: &L) -> Outcome {
    match args.watch {
        false => show(session, &session.output, list, &fetch(session, args, list)?),
        true => changes::follow(session, list, || fetch(session, args, list)),
    }
}

fn fetch<L: List>(session: &Session, args: &GetArgs, list: &L) -> Outcome<Listing<L::Item>> {
    let mut answer = list.fetch(session)?;
    if let Some(path) = &args.sort_by {
        sort(&mut answer, path)?;
    }
    let listing = Listing::<L::Item>::read(answer)?;
    session.note_lag(listing.head.lagging);
    Ok(listing)
}

fn show<L: List>(
    session: &Session,
    output: &Output,
    list: &L,
    listing: &Listing<L::Item>,
) -> Outcome {
    let items = &listing.items;
    if items.is_empty() {
        list.note_empty(session);
    }
    let names = || items.iter().map(|item| list.name(item)).collect();
    output.answer(&listing.json, names, |wide| list.table(session, items, wide))
}
