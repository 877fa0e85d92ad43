//! `get`: lists, as tables or as the API returns them.

pub(crate) mod lists;

use std::collections::{BTreeMap, BTreeSet};

use quota_client::{
    http::{Address, Events},
    table::{Limit, QUOTA_COLUMNS},
    wire::{AsOf, Page, Quota},
};
use quota_semantics::{
    Timestamp,
    quantity::Quantity,
    quota::{manifest::Metadata, spec::ScopeExpression},
};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::Value;

use crate::{
    args::{Get, GetArgs, Named},
    failure::{Failure, Outcome, Transient},
    figures::{Units, beside, percent, share},
    output::{Output, note, sort, to_json},
    session::{Answer, Session, read},
    table::{self, Table},
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
        items(before, now)
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
        Get::Quota(named) => show_or_follow(session, args, &Quotas(named)),
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
        true => follow(session, list, || fetch(session, args, list)),
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

/// The quotas of a namespace or of all namespaces, or one quota: kubectl's columns, and the reserved amounts.
pub(super) struct Quotas<'a>(&'a Named);

impl Item for Quota<'static> {
    fn identity(&self) -> String {
        let Metadata { namespace, name, uid, .. } = &self.metadata;
        format!("{namespace}/{name}/{uid}")
    }

    fn strip_head(&mut self) {
        (self.as_of, self.lagging) = (None, false);
    }
}

impl List for Quotas<'_> {
    type Item = Quota<'static>;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let Named { name, selector } = self.0;
        match name {
            Some(name) => session.client.get_json(&one(session, name)?),
            None => {
                let chosen = all(session).with_some("labelSelector", selector.as_ref());
                session.client.list_json(&chosen, None)
            }
        }
    }

    fn name(&self, quota: &Quota<'static>) -> String {
        format!("resourcequota/{}", quota.metadata.name)
    }

    fn table(&self, session: &Session, quotas: &[Quota<'static>], wide: bool) -> Table {
        table(quotas, session.scope.all, wide)
    }
}

/// A quota, or all of the namespace or of all namespaces, and whether the response lags.
pub(crate) fn fetch_quotas(
    session: &Session,
    name: Option<&str>,
) -> Outcome<(Answer<Vec<Quota<'static>>>, bool)> {
    let client = &session.client;
    Ok(match name {
        Some(name) => {
            let Answer { json, content } = client.get::<Quota<'static>>(&one(session, name)?)?;
            let lagging = content.lagging;
            let content = vec![content];
            (Answer { json, content }, lagging)
        }
        None => {
            let Answer { json, content } = client.list::<Page<_>>(&all(session), None)?;
            let (content, lagging) = (content.items, content.lagging);
            (Answer { json, content }, lagging)
        }
    })
}

fn one(session: &Session, name: &str) -> Outcome<Address> {
    let namespace = session.scope.of_one("a quota")?;
    Ok(Address::in_namespace(namespace, ["quotas", name]))
}

fn all(session: &Session) -> Address {
    Address::list(session.scope.listed(), "quotas")
}

/// The quotas of a namespace with kubectl's columns; those of all namespaces with the fullest limit of each.
fn table(quotas: &[Quota<'_>], all: bool, wide: bool) -> Table {
    match all {
        true => fullest_limits(quotas, wide),
        false => limits(quotas, wide),
    }
}

fn limits(quotas: &[Quota<'_>], wide: bool) -> Table {
    let mut titles: Vec<_> = QUOTA_COLUMNS.iter().map(|it| it.to_uppercase()).collect();
    if wide {
        titles.extend(["SCOPES", "RESERVATIONS"].map(str::to_owned));
    }
    let mut table = Table::titled(titles);
    let now = table::now();
    for quota in quotas {
        let mut row = Vec::from(cells(quota));
        row.push(age_of(quota, now));
        if wide {
            row.extend([scopes(quota).join(","), reservations(quota)]);
        }
        table.row(row);
    }
    table
}

fn fullest_limits(quotas: &[Quota<'_>], wide: bool) -> Table {
    let mut titles =
        vec!["NAMESPACE", "NAME", "FULLEST", ">USE%", "?>USED", "?>RESERVED", "?>HARD", "AGE"];
    if wide {
        titles.extend(["REQUEST", "LIMIT", "SCOPES", "RESERVATIONS"]);
    }
    let mut table = Table::new(&titles);
    let share_of = |limit: &Limit<'_>| {
        let [used, reserved] = [limit.used, limit.reserved].map(|it| it.unwrap_or(&Quantity::ZERO));
        share(limit.hard, used, reserved)
    };
    let fullest = |quota: &Quota<'_>| -> Option<(String, [Quantity; 3], f64)> {
        let limits = quota.limits().into_iter();
        let limits = limits.map(|limit| (share_of(&limit), limit));
        // The first among equals, so that the answer is stable.
        let (share, limit) =
            limits.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
        let amount = |amount: Option<&Quantity>| amount.cloned().unwrap_or_default();
        let amounts = [limit.hard.clone(), amount(limit.used), amount(limit.reserved)];
        Some((limit.resource.to_owned(), amounts, share))
    };
    let found: Vec<_> = quotas.iter().map(fullest).collect();
    let hard = found.iter().flatten();
    let units = Units::of(hard.map(|(resource, [hard, ..], _)| (&**resource, hard)));
    let now = table::now();
    for (quota, fullest) in quotas.iter().zip(&found) {
        let metadata = &quota.metadata;
        let mut row = vec![metadata.namespace.to_string(), metadata.name.to_string()];
        match fullest {
            Some((resource, [hard, used, reserved], share)) => {
                let [used, reserved, hard] = units.all(resource, [used, reserved, hard]);
                row.extend([resource.clone(), percent(*share), used, reserved, hard]);
            }
            None => row.extend([(); 5].map(|()| "-".to_owned())),
        }
        row.push(age_of(quota, now));
        if wide {
            let [_, requests, limits, _] = cells(quota);
            row.extend([requests, limits, scopes(quota).join(","), reservations(quota)]);
        }
        table.row(row);
    }
    table
}

/// The name, the requests, the limits and the reserved amounts, as kubectl shows them, in the units of all views.
fn cells(quota: &Quota<'_>) -> [String; 4] {
    let all = quota.limits();
    let of = |is_wanted: &dyn Fn(&Limit<'_>) -> bool, cell: &dyn Fn(&Limit<'_>) -> String| {
        let wanted = all.iter().filter(|limit| is_wanted(limit));
        wanted.map(cell).collect::<Vec<_>>().join(", ")
    };
    let used = |limit: &Limit<'_>| {
        let used = limit.used.unwrap_or(&Quantity::ZERO);
        let [used, hard] = [used, limit.hard].map(|it| beside(limit.resource, it, limit.hard));
        format!("{}: {used}/{hard}", limit.resource)
    };
    let reserved = |limit: &Limit<'_>| {
        let reserved = limit.reserved.unwrap_or(&Quantity::ZERO);
        let reserved = beside(limit.resource, reserved, limit.hard);
        format!("{}: {reserved}", limit.resource)
    };
    let is_limit = |limit: &Limit<'_>| limit.resource.starts_with("limits.");
    let is_reserved = |limit: &Limit<'_>| limit.reserved.is_some_and(|it| !it.is_zero());
    [
        quota.metadata.name.to_string(),
        of(&|limit| !is_limit(limit), &used),
        of(&is_limit, &used),
        of(&is_reserved, &reserved),
    ]
}

fn age_of(quota: &Quota<'_>, now: Timestamp) -> String {
    let created = quota.metadata.creation_timestamp;
    created.map_or_else(|| "<unknown>".to_owned(), |created| table::span(now.since(created)))
}

/// The number of its pending reservations.
fn reservations(quota: &Quota<'_>) -> String {
    let more = match quota.status.reservations_omitted {
        0 => "",
        _ => "+",
    };
    format!("{}{more}", quota.status.reservations.len())
}

/// The scopes of a quota, whether written as scopes or as a selector, sorted.
pub(crate) fn scopes(quota: &Quota<'_>) -> Vec<String> {
    let spec = &quota.spec;
    let selector = spec.selector.iter().flat_map(|it| &it.match_expressions);
    let expression = |it: &ScopeExpression| {
        let values: Vec<_> = it.values.iter().map(|value| &**value).collect();
        match values.is_empty() {
            true => format!("{} {}", it.scope_name, it.operator),
            false => format!("{} {} [{}]", it.scope_name, it.operator, values.join(" ")),
        }
    };
    let written = spec.scopes.iter().map(ToString::to_string);
    let mut scopes: Vec<_> = written.chain(selector.map(expression)).collect();
    scopes.sort_unstable();
    scopes
}

/// Shows a list, and then its changes until it is interrupted.
///
/// The stream of entries triggers the next read, and differences from the last response are printed. So every list can
/// be watched, and many entries at once cost few requests.
fn follow<L: List>(
    session: &Session,
    list: &L,
    fetch: impl Fn() -> Outcome<Listing<L::Item>>,
) -> Outcome {
    let address = Address::of(["v1", "watch"]).with_some("namespace", list.watched(session));
    let first = session.output.continued();
    let later = first.without_headers();
    let mut shown: Option<Vec<L::Item>> = None;
    watch::patiently(|attempt| {
        // The stream is opened before the list is read, so no change in between is missed.
        let mut events = session.client.stream(&address, None)?;
        attempt.connected = true;
        loop {
            let listing = fetch()?;
            match &shown {
                None => show(session, &first, list, &listing)?,
                Some(before) => {
                    let mut changed = list.changes(before, &listing.items);
                    for item in gone(before, &listing.items) {
                        match list.ended(session, item)? {
                            Some(ended) => changed.push(ended),
                            None => note(format!("{} deleted", list.name(item))),
                        }
                    }
                    print(session, &later, list, &changed)?;
                }
            }
            shown = Some(listing.items);
            attempt.moved = true;
            let head = listing.head.as_of.map(|head| head.sequence);
            if !wait(&mut events, head)? {
                return Ok(());
            }
        }
    })
}

/// An entry of any type; a bookmark cannot be parsed as one.
#[derive(Deserialize)]
struct AnyEntry {
    sequence: u64,
    #[serde(rename = "event")]
    _event: IgnoredAny,
}

/// Waits for an entry after the last response. Returns false if the stream has ended.
fn wait(events: &mut Events<impl std::io::BufRead>, head: Option<u64>) -> Outcome<bool> {
    loop {
        let event = events.next_event().map_err(|error| Failure {
            transient: Some(Transient::Unreachable),
            ..Failure::from(error)
        })?;
        let Some(event) = event else { return Ok(false) };
        // Bookmarks are no entries.
        let Ok(entry) = serde_json::from_str::<AnyEntry>(&event.data) else {
            continue;
        };
        if head.is_none_or(|head| entry.sequence > head) {
            return Ok(true);
        }
    }
}

fn print<L: List>(session: &Session, output: &Output, list: &L, changed: &[L::Item]) -> Outcome {
    if output.is_structured() {
        return changed.iter().try_for_each(|item| output.value(&to_json(item)?));
    }
    let names = || changed.iter().map(|item| list.name(item)).collect();
    let table = |wide| list.table(session, changed, wide);
    output.answer(&(), names, table)
}

/// The item without fields that change with every entry.
fn bare<T: Item>(item: &T) -> T {
    let mut item = item.clone();
    item.strip_head();
    item
}

/// The items that are new, or differ from before.
fn items<T: Item>(before: &[T], now: &[T]) -> Vec<T> {
    let before: BTreeMap<_, _> = before.iter().map(|item| (item.identity(), bare(item))).collect();
    let is_new = |item: &&T| before.get(&item.identity()) != Some(&bare(*item));
    now.iter().filter(is_new).cloned().collect()
}

fn gone<'a, T: Item>(before: &'a [T], now: &[T]) -> impl Iterator<Item = &'a T> {
    let now: BTreeSet<_> = now.iter().map(Item::identity).collect();
    before.iter().filter(move |item| !now.contains(&item.identity()))
}

#[cfg(test)]
mod tests {
    use quota_client::wire::{DeadLetter, Group, Quota, Reservation};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn quotas_look_as_in_kubectl_with_what_is_reserved() {
        let quota = json!({
            "metadata": {"name": "q", "namespace": "team-a", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"hard": {"pods": "10"}, "scopes": ["Terminating"], "scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "low"]}]}},
            "status": {"hard": {"requests.cpu": "4", "pods": "10", "limits.cpu": "8"},
                       "used": {"pods": "3", "requests.cpu": "500m"},
                       "reserved": {"pods": "1", "requests.cpu": "0"}, "reservations": [
                {"reservedBy": {"uid": "u"}, "reserved": {"pods": "1"}, "expirationTime": "2020-01-01T00:00:00Z"}]}
        });
        let quota: Quota<'static> = serde_json::from_value(quota).unwrap();
        let cells = |table: Table| -> Vec<Vec<String>> {
            let text = table.render(true);
            let row = |line: &str| {
                let cells = line.split("   ").map(str::trim);
                cells.filter(|it| !it.is_empty()).map(str::to_owned).collect()
            };
            text.lines().map(row).collect()
        };
        let quotas = [quota];
        let everywhere = cells(table(&quotas, true, false));
        assert_eq!(
            everywhere[0],
            ["NAMESPACE", "NAME", "FULLEST", "USE%", "USED", "RESERVED", "HARD", "AGE"]
        );
        assert_eq!(everywhere[1][..7], ["team-a", "q", "pods", "40%", "3", "1", "10"]);
        let lines = cells(table(&quotas, false, true));
        assert_eq!(
            lines[0],
            ["NAME", "REQUEST", "LIMIT", "RESERVED", "AGE", "SCOPES", "RESERVATIONS"]
        );
        assert_eq!(
            lines[1][..4],
            ["q", "pods: 3/10, requests.cpu: 0.5/4", "limits.cpu: 0/8", "pods: 1"]
        );
        assert_eq!(lines[1][5..], ["PriorityClass In [high low],Terminating", "1"]);
    }

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn gone_of<T: Item>(before: &[T], now: &[T]) -> Vec<T> {
        gone(before, now).cloned().collect()
    }

    #[test]
    fn what_is_new_or_gone_differs_from_what_stays() {
        let quota = |name: &str, pods: &str| -> Quota<'static> {
            read(json!({"metadata": {"name": name}, "spec": {"hard": {"pods": pods}}}))
        };
        let before = [quota("a", "1"), quota("b", "1"), quota("c", "1")];
        let now = [quota("a", "1"), quota("b", "2"), quota("d", "1")];
        assert_eq!(items(&before, &now), [quota("b", "2"), quota("d", "1")]);
        assert_eq!(gone_of(&before, &now), [quota("c", "1")]);
        let group = |name: &str, members: u64| -> Group {
            read(json!({"name": name, "status":
                {"hard": {}, "used": {}, "reserved": {}, "members": members}}))
        };
        let before = [group("a", 1), group("b", 1)];
        assert_eq!(items(&before, &[group("a", 1), group("b", 2)]), [group("b", 2)]);
        assert_eq!(gone_of(&before, &[group("a", 1)]), [group("b", 1)]);
    }

    #[test]
    fn how_far_the_ledger_is_makes_nothing_new() {
        let at = |sequence: u64| -> [Reservation<'static>; 1] {
            let time = "2026-11-20T10:00:00Z";
            [read(json!({
                "namespace": "a", "reservedBy": {"uid": "u"}, "reserved": {}, "state": "pending",
                "createdTime": time, "expirationTime": time,
                "asOf": {"sequence": sequence, "time": time}}))]
        };
        assert_eq!(items(&at(1), &at(2)), []);
    }

    #[test]
    fn a_dead_letter_is_new_once() {
        let letter = |sequence: u64| -> DeadLetter {
            read(json!({"sequence": sequence, "time": "2026-11-20T10:00:00Z", "source": "s",
                        "position": sequence, "reason": "odd", "payload": ""}))
        };
        let before = [letter(2), letter(1)];
        assert_eq!(items(&before, &[letter(3), letter(2), letter(1)]), [letter(3)]);
    }
}
