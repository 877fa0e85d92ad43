//! `get` and `denials`: entries, dead letters, groups, namespaces, objects, reservations and usage.

use std::collections::BTreeSet;

use quota_client::{
    http::Address,
    wire::{
        CheckedQuota, DeadLetter, Denial, Entry, Group, NamespaceUsage, Object, Page, Quota,
        Reservation, Usage,
    },
};
use quota_semantics::Timestamp;
use serde_json::{Value, json};

use super::{Item, List, Listing};
use crate::{
    args::{
        Beginning, DeadLetters, DenialsOf, GroupsOf, Moment, Named, NamespacesOf, Objects, Range,
        Reservations, UsageOf, When,
    },
    failure::{Exit, Failure, Outcome},
    figures::{NamespaceFigures, beside, limit_name, percent, usage_table},
    group,
    output::note,
    reservation,
    session::{Answer, Session, read},
    table::{self, Table},
    watch::{self, sequence_of},
};

impl Item for Entry {
    fn identity(&self) -> String {
        self.sequence.to_string()
    }
}

impl List for Range {
    type Item = Entry;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let from = self.from.map(|from| sequence_of(session, from));
        let mut address = Address::of(["v1", "entries"])
            .with_some("from", from.transpose()?)
            .with_some("namespace", session.scope.filter());
        if self.tail.is_some() {
            address = address.with("order", "desc");
        }
        let limit = self.tail.unwrap_or(self.limit);
        let mut answer = session.client.list_json(&address, Some(limit))?;
        if self.tail.is_some()
            && let Some(entries) = answer.get_mut("items").and_then(Value::as_array_mut)
        {
            entries.reverse();
        }
        if let Some(to) = self.to.map(Moment::time)
            && let Some(entries) = answer.get_mut("items").and_then(Value::as_array_mut)
        {
            let is_within =
                |entry: &Value| read::<Entry>(entry).is_ok_and(|entry| entry.time <= to);
            let within = entries.iter().take_while(|entry| is_within(entry)).count();
            if within < entries.len() {
                entries.truncate(within);
                answer["continue"] = Value::Null;
            }
        }
        Ok(answer)
    }

    fn name(&self, entry: &Entry) -> String {
        watch::name(entry)
    }

    fn table(&self, _: &Session, entries: &[Entry], wide: bool) -> Table {
        watch::table(entries, wide)
    }

    fn note_empty(&self, _: &Session) {
        note("No entries found");
    }
}

/// The sequence after the entries of a response, which may be in any order.
fn next(listing: &Listing<Entry>) -> Option<u64> {
    let last = listing.items.iter().map(|entry| entry.sequence).max()?;
    Some(last.saturating_add(1))
}

/// The sequence of the first entry after a response; none if the daemon does not return it.
pub(super) fn behind(range: &Range, listing: &Listing<Entry>) -> Option<u64> {
    let behind_head = || Some(listing.head.as_of?.sequence.saturating_add(1));
    let from = range.from.and_then(|from| match from {
        Beginning::Sequence(sequence) => Some(sequence),
        Beginning::Time(_) => None,
    });
    next(listing).or(from).or_else(behind_head)
}

/// Reports the begin of the next page, if there is one.
pub(super) fn note_more(range: &Range, listing: &Listing<Entry>) {
    let next_page = listing.head.next.as_ref();
    let more = range.tail.is_none() && next_page.is_some_and(|token| !token.is_empty());
    if let (Some(next), true) = (next(listing), more) {
        note(format!("there are more: --from {next}"));
    }
}

impl Item for DeadLetter {
    fn identity(&self) -> String {
        self.sequence.to_string()
    }
}

impl List for DeadLetters {
    type Item = DeadLetter;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let address = Address::of(["v1", "dead-letters"]);
        session.client.list_json(&address, self.limit)
    }

    fn name(&self, letter: &DeadLetter) -> String {
        format!("entry/{}", letter.sequence)
    }

    fn table(&self, _: &Session, letters: &[DeadLetter], wide: bool) -> Table {
        Table::of(
            letters,
            &[
                (true, ">ENTRY", &|it| it.sequence.to_string()),
                (true, "TIME", &|it| it.time.to_string()),
                (true, "SOURCE", &|it| it.source.clone()),
                (true, ">POSITION", &|it| it.position.to_string()),
                (true, "REASON", &|it| it.reason.clone()),
                (wide, "PAYLOAD", &|it| it.payload.clone()),
            ],
        )
    }

    fn note_empty(&self, _: &Session) {
        note("No dead letters found");
    }
}

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
        let all = self.0.when.added_to(Address::of(["v1", "groups"]));
        let list = session.client.list_json(&all, None)?;
        let groups = list["items"].as_array().into_iter().flatten();
        let mut found = groups.filter(|group| group["name"] == name);
        let group = found.next().cloned();
        group.ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("there was no group {name} at that time"))
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
                let chosen = when.added_to(all.with_some("labelSelector", selector.as_ref()));
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

impl Item for Object<'static> {
    fn identity(&self) -> String {
        format!("{}/{}", self.namespace, self.uid)
    }
}

impl List for Objects {
    type Item = Object<'static>;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let address = Address::list(session.scope.listed(), "objects");
        let address = address.with_some("resource", self.resource.as_ref());
        let mut answer = session.client.list_json(&address, self.limit)?;
        if let Some(objects) = answer.get_mut("items").and_then(Value::as_array_mut) {
            let order = |object: &Value| {
                let read = read::<Object<'static>>(object).ok();
                read.map(|it| (it.namespace, it.resource, it.name, it.uid.to_string()))
            };
            objects.sort_by_cached_key(order);
        }
        Ok(answer)
    }

    fn name(&self, object: &Object<'static>) -> String {
        format!("{}/{}", object.resource, object.name)
    }

    fn table(&self, session: &Session, objects: &[Object<'static>], wide: bool) -> Table {
        objects_table(objects, session.scope.all, wide)
    }
}

fn objects_table(objects: &[Object<'_>], all: bool, wide: bool) -> Table {
    let sequence = |it: &Object<'_>| it.sequence.map(|it| it.to_string()).unwrap_or_default();
    Table::of(
        objects,
        &[
            (all, "NAMESPACE", &|it| it.namespace.to_string()),
            (true, "RESOURCE", &|it| it.resource.to_string()),
            (true, "NAME", &|it| it.name.to_string()),
            (true, "COUNTS", &|it| it.usage.pretty()),
            (wide, "UID", &|it| it.uid.to_string()),
            (wide, ">SEQUENCE", &sequence),
        ],
    )
}

impl Item for Reservation<'static> {
    fn identity(&self) -> String {
        format!("{}/{}", self.namespace, self.reserved_by.uid)
    }

    fn strip_head(&mut self) {
        (self.as_of, self.lagging) = (None, false);
    }
}

impl List for Reservations {
    type Item = Reservation<'static>;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let client = &session.client;
        let pending = |namespace: &str| {
            client.list_json(&Address::in_namespace(namespace, ["reservations"]), None)
        };
        match &self.uid {
            Some(uid) => client.get_json(&reservation::one(session, [uid])?),
            None if session.scope.all => everywhere(session, When::default(), None, pending),
            None => pending(session.scope.namespace()),
        }
    }

    fn name(&self, reservation: &Reservation<'static>) -> String {
        format!("reservation/{}", reservation.reserved_by.uid)
    }

    fn table(&self, session: &Session, reservations: &[Reservation<'static>], wide: bool) -> Table {
        reservations_table(reservations, session.scope.all, wide)
    }

    fn ended(
        &self,
        session: &Session,
        reservation: &Reservation<'static>,
    ) -> Outcome<Option<Reservation<'static>>> {
        let uid = reservation.reserved_by.uid.to_string();
        match session.client.get(&reservation_address(&reservation.namespace, &uid)) {
            Ok(ended) => Ok(Some(ended.content)),
            Err(failure) if failure.exit == Exit::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

fn reservation_address(namespace: &str, uid: &str) -> Address {
    Address::in_namespace(namespace, ["reservations", uid])
}

fn reservations_table(reservations: &[Reservation<'_>], all: bool, wide: bool) -> Table {
    let now = table::now();
    // Only what is pending has an end before it.
    let left = |it: &Reservation<'_>| match &*it.state {
        "pending" => table::left(it.expiration_time, now),
        _ => String::new(),
    };
    Table::of(
        reservations,
        &[
            (all, "NAMESPACE", &|it| it.namespace.to_string()),
            (true, "UID", &|it| it.reserved_by.uid.to_string()),
            (true, "FOR", &|it| reservation::holder(&it.reserved_by)),
            (true, "RESERVED", &|it| it.reserved.pretty()),
            (true, "STATE", &|it| it.state.to_string()),
            (true, "EXPIRES", &left),
            (true, "?AGE", &|it| table::span(now.since(it.created_time))),
            (wide, "CREATED", &|it| it.created_time.to_string()),
            (wide, "EXPIRATION", &|it| it.expiration_time.to_string()),
        ],
    )
}

impl Item for Usage {
    fn identity(&self) -> String {
        self.namespace.to_string()
    }
}

impl List for UsageOf {
    type Item = Usage;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let ask = |namespace: &str| {
            let address = Address::in_namespace(namespace, ["usage"]);
            session.client.get_json(&self.when.added_to(address))
        };
        match session.scope.all {
            true => everywhere(session, self.when, self.selector.as_deref(), ask),
            false => ask(session.scope.namespace()),
        }
    }

    fn name(&self, usage: &Usage) -> String {
        format!("usage/{}", usage.namespace)
    }

    fn table(&self, session: &Session, usages: &[Usage], wide: bool) -> Table {
        let usages: Vec<_> = usages.iter().map(NamespaceFigures::from).collect();
        let table = usage_table(&usages, session.scope.all, wide || self.all);
        if table.is_empty() {
            session.note_empty();
        }
        table
    }

    /// Only the figures that changed.
    fn changes(&self, before: &[Usage], now: &[Usage]) -> Vec<Usage> {
        let changed = now.iter().filter_map(|usage| {
            let old = before.iter().find(|old| old.namespace == usage.namespace);
            let mut new = usage.clone();
            if let Some(old_usage) = old {
                new.resources.retain(|sum| !old_usage.resources.contains(sum));
                for quota in &mut new.quotas {
                    let old = old_usage.quotas.iter().filter(|old| old.name == quota.name);
                    let old: Vec<_> = old.flat_map(|old| &old.resources).collect();
                    quota.resources.retain(|limit| {
                        let [before, now] =
                            [old_usage, usage].map(|it| it.room.get(&limit.resource));
                        before != now || !old.contains(&limit)
                    });
                }
                new.room.retain(|resource, room| old_usage.room.get(resource) != Some(room));
            }
            new.quotas.retain(|quota| !quota.resources.is_empty());
            let is_shown = match usage.quotas.is_empty() && usage.room.is_empty() {
                true => !new.resources.is_empty(),
                false => !new.quotas.is_empty() || !new.room.is_empty(),
            };
            is_shown.then_some(new)
        });
        changed.collect()
    }
}

/// The results of `ask` for each namespace, as one list: the items of a list, or the response itself.
pub(crate) fn everywhere(
    session: &Session,
    when: When,
    selector: Option<&str>,
    mut ask: impl FnMut(&str) -> Outcome<Value>,
) -> Outcome<Value> {
    let mut names = BTreeSet::new();
    // That of the first page: later namespaces may be missing.
    let mut as_of = None;
    let (mut lagging, mut pages) = (false, 0);
    let address = when.added_to(Address::of(["v1", "usage"])).with_some("labelSelector", selector);
    session.client.walk(&address, |page: Page<NamespaceUsage>| {
        as_of.get_or_insert(page.as_of);
        lagging |= page.lagging;
        pages += 1;
        names.extend(page.items.into_iter().map(|usage| usage.namespace));
        Ok(())
    })?;
    if pages > 1 && when.is_now() && selector.is_none() {
        // The pages have the fullest first: a namespace that fills up between two pages may be on neither. Quotas are
        // listed by name.
        let quotas = Address::of(["v1", "quotas"]);
        session.client.walk(&quotas, |page: Page<Quota<'static>>| {
            names.extend(page.items.into_iter().map(|quota| quota.metadata.namespace));
            Ok(())
        })?;
    }
    let mut all = Vec::new();
    for namespace in names {
        let mut answer = match ask(&namespace) {
            Ok(answer) => answer,
            // It went away in between.
            Err(failure) if failure.exit == Exit::NotFound => continue,
            Err(failure) => return Err(failure.about(namespace)),
        };
        lagging |= answer.get("lagging") == Some(&Value::Bool(true));
        match answer.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => all.extend(items),
            _ => all.push(answer),
        }
    }
    let mut joined = json!({ "items": all, "asOf": as_of });
    if lagging {
        joined["lagging"] = true.into();
    }
    Ok(joined)
}

impl Item for NamespaceUsage {
    fn identity(&self) -> String {
        self.namespace.to_string()
    }
}

impl List for NamespacesOf {
    type Item = NamespaceUsage;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let address = Address::of(["v1", "usage"]);
        let address = address.with_some("labelSelector", self.selector.as_ref());
        let mut answer = session.client.list_json(&self.when.added_to(address), None)?;
        if let Some(namespaces) = answer.get_mut("items").and_then(Value::as_array_mut) {
            namespaces.sort_by_cached_key(|it| it["namespace"].as_str().map(str::to_owned));
        }
        Ok(answer)
    }

    fn name(&self, usage: &NamespaceUsage) -> String {
        format!("namespace/{}", usage.namespace)
    }

    fn table(&self, _: &Session, namespaces: &[NamespaceUsage], wide: bool) -> Table {
        let fullest = |it: &NamespaceUsage| match &it.fullest {
            Some(fullest) => {
                let limit = limit_name(fullest.kind, &fullest.quota);
                format!("{limit}/{}", fullest.resource)
            }
            None => "-".to_owned(),
        };
        let share = |it: &NamespaceUsage| match &it.fullest {
            Some(fullest) => percent(fullest.share.unwrap_or(f64::INFINITY)),
            None => "-".to_owned(),
        };
        let labels = |it: &NamespaceUsage| {
            let labels = it.labels.iter();
            let labels: Vec<_> = labels.map(|(key, value)| format!("{key}={value}")).collect();
            labels.join(",")
        };
        Table::of(
            namespaces,
            &[
                (true, "NAME", &|it| it.namespace.to_string()),
                (true, ">QUOTAS", &|it| it.quotas.to_string()),
                (true, "?>PENDING", &|it| it.reservations.to_string()),
                (true, ">USE%", &share),
                (true, "FULLEST", &fullest),
                (wide, "LABELS", &labels),
            ],
        )
    }

    fn note_empty(&self, _: &Session) {
        note("No resources found");
    }

    /// Any namespace may be in the list.
    fn watched<'s>(&self, _: &'s Session) -> Option<&'s str> {
        None
    }
}

/// Shows the latest denials, newest first.
pub(crate) fn denials(session: &Session, args: &DenialsOf) -> Outcome {
    let json = args.fetch(session)?;
    let denials = read::<Page<Denial>>(&json)?.items;
    if denials.is_empty() {
        args.note_empty(session);
    }
    session.output.answer(
        &json,
        || denials.iter().map(|denial| args.name(denial)).collect(),
        |wide| args.table(session, &denials, wide),
    )
}

impl Item for Denial {
    fn identity(&self) -> String {
        self.id.to_string()
    }
}

impl List for DenialsOf {
    type Item = Denial;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let address = Address::list(session.scope.filter(), "denials");
        // Denials of a time may be behind many later ones.
        let limit = (self.since.is_none() && self.to.is_none()).then_some(self.limit);
        let mut answer = session.client.list_json(&address, limit)?;
        let [since, to] = [self.since, self.to].map(|moment| moment.map(Moment::time));
        if let Some(denials) = answer.get_mut("items").and_then(Value::as_array_mut) {
            let is_within = |denial: &Value| {
                let time = denial["time"].as_str().and_then(|time| time.parse().ok());
                let time: Timestamp = time.unwrap_or(Timestamp::EPOCH);
                since.is_none_or(|since| since <= time) && to.is_none_or(|to| time <= to)
            };
            denials.retain(is_within);
            denials.truncate(self.limit);
        }
        Ok(answer)
    }

    fn name(&self, denial: &Denial) -> String {
        format!("denial/{}", denial.id)
    }

    fn table(&self, session: &Session, denials: &[Denial], wide: bool) -> Table {
        denials_table(denials, session.scope.filter().is_none(), wide)
    }

    fn note_empty(&self, _: &Session) {
        note("No denials found");
    }

    fn watched<'s>(&self, session: &'s Session) -> Option<&'s str> {
        session.scope.filter()
    }
}

/// The latest denials of a namespace, or of all.
pub(crate) fn fetch_denials(
    session: &Session,
    namespace: Option<&str>,
    limit: usize,
) -> Outcome<Answer<Page<Denial>>> {
    let address = Address::list(namespace, "denials");
    session.client.list(&address, Some(limit))
}

/// Denials as a table.
pub(crate) fn denials_table(denials: &[Denial], all: bool, wide: bool) -> Table {
    let now = table::now();
    let name = |Denial { object, .. }: &Denial| {
        let name = match object.name.is_empty() {
            true => object.uid.to_string(),
            false => object.name.to_string(),
        };
        match object.resource.is_empty() {
            true => name,
            false => format!("{}/{name}", object.resource),
        }
    };
    let actor = |Denial { actor, .. }: &Denial| {
        let user = actor.user.as_ref().unwrap_or(&actor.principal);
        user.to_string()
    };
    Table::of(
        denials,
        &[
            (true, "AGE", &|it| table::span(now.since(it.time))),
            (all, "NAMESPACE", &|it| it.namespace.to_string()),
            (true, "OBJECT", &name),
            (true, "?REASON", &|it| it.reason.to_string()),
            (true, "SHORT OF", &|it| short_of(&it.quotas)),
            (wide, "ACTOR", &actor),
            (wide, "UID", &|it| it.object.uid.to_string()),
            (wide, "DETAIL", &|it| it.detail.clone()),
        ],
    )
}

/// The exceeded limits, as in `compute/requests.cpu: 2 wanted, 500m left`.
fn short_of(quotas: &[CheckedQuota]) -> String {
    let mut parts = Vec::new();
    for quota in quotas {
        for limit in &quota.resources {
            let left = limit.left();
            if limit.is_exceeded() {
                parts.push(format!(
                    "{}/{}: {} wanted, {} left",
                    limit_name(quota.kind, &quota.name),
                    limit.resource,
                    beside(&limit.resource, &limit.requested, &limit.hard),
                    beside(&limit.resource, &left, &limit.hard)
                ));
            }
        }
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    use crate::args::When;

    #[test]
    fn objects_say_what_they_count_for() {
        let object = json!({"uid": "u1", "namespace": "a", "resource": "pods", "name": "web",
                            "usage": {"pods": "1", "requests.cpu": "500m"}, "sequence": 7});
        let object = serde_json::from_value(object).unwrap();
        let text = objects_table(&[object], true, true).render(false);
        let words: Vec<_> = text.split_whitespace().collect();
        assert_eq!(words, ["a", "pods", "web", "pods=1,requests.cpu=500m", "u1", "7"]);
    }

    #[test]
    fn reservations_say_for_what_and_until_when() {
        let pending = json!({
            "namespace": "a", "reservedBy": {"kind": "Pod", "name": "web", "uid": "u1"},
            "reserved": {"pods": "1", "requests.cpu": "2"}, "state": "pending",
            "createdTime": "2020-01-01T00:00:00Z", "expirationTime": "2020-01-01T00:00:30Z"});
        let ended = json!({"namespace": "a", "reservedBy": {"uid": "u2"}, "reserved": {}, "state": "released",
            "createdTime": "2020-01-01T00:00:00Z", "expirationTime": "2020-01-01T00:00:30Z"});
        let all = [pending, ended].map(|value| serde_json::from_value(value).unwrap());
        let text = reservations_table(&all, false, true).render(false);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0][..5], ["u1", "Pod/web", "pods=1,requests.cpu=2", "pending", "0s"]);
        assert_eq!(lines[0][6..], ["2020-01-01T00:00:00Z", "2020-01-01T00:00:30Z"]);
        assert_eq!(lines[1][..5], ["u2", "<none>", "<none>", "released", "<none>"]);
    }

    #[test]
    fn only_figures_that_changed_are_new() {
        let limit = |resource: &str, used: &str| {
            json!({
            "resource": resource, "hard": "9", "used": used, "reserved": "0", "available": "1"})
        };
        let usage = |pods: &str, sequence: u64| -> Usage {
            serde_json::from_value(json!({
                "namespace": "a", "resources": [{"resource": "pods", "used": pods, "reserved": "0"}], "quotas": [
                    {"name": "q", "resources": [limit("pods", pods), limit("cpu", "1")]},
                    {"name": "r", "resources": [limit("cpu", "1")]}],
                "asOf": {"sequence": sequence, "time": "2026-11-20T10:00:00Z"}}))
            .unwrap()
        };
        let list = UsageOf { when: When::default(), all: false, selector: None };
        let changed = list.changes(&[usage("1", 1)], &[usage("2", 2)]);
        assert_eq!(
            serde_json::to_value(&changed[0].quotas).unwrap(),
            json!([{"name": "q", "resources": [limit("pods", "2")]}])
        );
        assert!(list.changes(&[usage("1", 1)], &[usage("1", 2)]).is_empty());
        assert_eq!(list.changes(&[], &[usage("1", 1)]), [usage("1", 1)]);
    }

    #[test]
    fn a_denial_says_what_was_short() {
        let denial: Denial = serde_json::from_value(json!({
            "id": 7, "time": "2020-01-01T00:00:00Z", "namespace": "a", "actor": {"principal": "ci"},
            "object": {"uid": "u1", "resource": "pods", "name": "web", "requested": {"pods": "1"}},
            "reason": "ExceedsHard", "detail": "exceeded quota: q, …",
            "quotas": [{"name": "q", "resources": [
                {"resource": "pods", "hard": "2", "used": "1", "reserved": "1", "requested": "1"},
                {"resource": "requests.cpu", "hard": "9", "used": "0", "reserved": "0", "requested": "1"}]}],
            "asOf": {"sequence": 3, "time": "2020-01-01T00:00:00Z"}
        }))
        .unwrap();
        let text = denials_table(&[denial], true, true).render(false);
        assert!(text.contains("q/pods: 1 wanted, 0 left"), "{text}");
        assert!(!text.contains("requests.cpu"), "{text}");
        assert!(text.contains("pods/web") && text.contains("ci"), "{text}");
    }
}
