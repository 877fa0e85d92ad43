//! The typed client against the real daemon: what it calls, and that its types say all that the daemon writes.

use std::{fs, time::Duration};

use quota_client::tokens::{Pattern, Role, issue};
use quota_client::{
    http::{Client, Error, Items, Options, Token, When},
    wire::*,
};
use quota_semantics::{quota::Manifest, resource::ResourceList, uid::Uid};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::quotad::{Quotad, REQUEST, agent};

fn list(amounts: &[(&str, &str)]) -> ResourceList {
    let read = |(name, amount): &(&str, &str)| ((*name).into(), amount.parse().unwrap());
    amounts.iter().map(read).collect()
}

fn request(uid: &str, cpu: &str) -> ReserveRequest {
    let holder = Holder::new("v1", "Pod", &format!("pod-{uid}"), Uid::new(uid).unwrap());
    ReserveRequest::of_amounts(holder, list(&[("pods", "1"), ("requests.cpu", cpu)]))
}

fn collected<T: DeserializeOwned>(items: Items<'_, T>) -> Vec<T> {
    items.collect::<Result<_, _>>().unwrap()
}

/// A daemon with a quota of four processors in `team-a`.
fn start(directory: &TempDir) -> (Quotad, Client) {
    let daemon = Quotad::start(directory.path(), &[]);
    let client = Client::new(&daemon.api, Options::default()).unwrap();
    let mut manifest = Manifest::default();
    manifest.spec.hard = list(&[("pods", "10"), ("requests.cpu", "4")]);
    let labels = &mut manifest.metadata.labels;
    labels.insert("tier".to_owned(), "gold".to_owned());
    let quota = client.set_quota("team-a", "compute", &manifest).unwrap();
    assert_eq!(&*quota.metadata.name, "compute");
    (daemon, client)
}

#[test]
fn a_reservation_goes_its_way() {
    let directory = TempDir::new().unwrap();
    let (_daemon, client) = start(&directory);
    let wanted = request("u-1", "3").for_time("60s".parse().unwrap());
    let grant = client.reserve("team-a", &wanted).unwrap();
    assert!(!grant.replayed);
    assert_eq!(grant.reservation.state, "pending");
    assert!(client.reserve("team-a", &wanted).unwrap().replayed);

    let denied = client.reserve("team-a", &request("u-2", "2")).unwrap_err();
    let Error::Denied(refusal) = denied else { panic!("{denied:?}") };
    assert_eq!(refusal.reason(), Some(Reason::ExceedsHard));
    let looked_at = refusal.problem.quotas.as_deref().unwrap();
    assert_eq!(&*looked_at[0].name, "compute");
    assert!(!client.check("team-a", &request("u-2", "2")).unwrap().fits);
    assert!(client.check("team-a", &request("u-2", "1")).unwrap().fits);

    let extended = client.extend("team-a", "u-1", "5m".parse().unwrap()).unwrap();
    assert!(extended.expiration_time > grant.reservation.expiration_time);
    let less = list(&[("pods", "1"), ("requests.cpu", "2")]);
    let committed = client.commit("team-a", "u-1", Some(&less)).unwrap();
    assert_eq!(committed.state, "committed");
    let usage = client.usage("team-a", When::Now).unwrap();
    let cpu = usage.quotas[0].resources.iter();
    let cpu = cpu.clone().find(|it| &*it.resource == "requests.cpu").unwrap();
    assert_eq!(cpu.used, Some("2".parse().unwrap()));
    let before = client.usage("team-a", When::Sequence(1)).unwrap();
    assert_eq!(before.as_of.sequence, 1);
    let parts = client.explain("team-a", "requests.cpu", Some("compute"), When::Now);
    assert_eq!(parts.unwrap().items[0].kind, Kind::Commit);

    client.release("team-a", "u-1").unwrap();
    client.release("team-a", "u-1").unwrap();
    let ended = client.reserve("team-a", &wanted).unwrap_err();
    let Error::Conflict(refusal) = ended else { panic!("{ended:?}") };
    assert_eq!(refusal.reason(), Some(Reason::ReservationEnded));
    assert_eq!(refusal.problem.cause.as_deref(), Some("returned"));
    let unknown = client.reservation("team-a", "nobody").unwrap_err();
    assert!(matches!(unknown, Error::NotFound(_)), "{unknown:?}");
    let released = collected(client.reservations("team-a", Some("released")));
    assert_eq!(released.len(), 1);
}

#[test]
fn several_are_reserved_for_together_or_each_for_itself() {
    let directory = TempDir::new().unwrap();
    let (_daemon, client) = start(&directory);
    let wanted = [("a-1", "3"), ("a-2", "3"), ("a-3", "1")]
        .map(|(uid, cpu)| request(uid, cpu).in_namespace("team-a"));
    let failed = client.reserve_batch(&wanted, true).unwrap_err();
    let Error::Denied(refusal) = failed else { panic!("{failed:?}") };
    assert_eq!(refusal.problem.index, Some(1));
    assert!(collected(client.reservations("team-a", None)).is_empty());
    let batch = client.reserve_batch(&wanted, false).unwrap();
    let outcomes: Vec<_> = batch.results.iter().map(Result::is_ok).collect();
    assert_eq!(outcomes, [true, false, true]);
    assert!(matches!(batch.results[1], Err(Error::Denied(_))));
    let again = client.reserve_batch(&wanted, false).unwrap();
    assert!(again.results[0].as_ref().unwrap().replayed);
}

#[test]
fn entries_are_watched_as_they_are_listed() {
    let directory = TempDir::new().unwrap();
    let (_daemon, client) = start(&directory);
    let because = Options { change_reason: Some("INC-7".to_owned()), ..Options::default() };
    let other = Client::new(client.server_without_password(), because).unwrap();
    other.reserve("team-a", &request("u-1", "1")).unwrap();
    let listed = collected(client.entries(None, None));
    let watched = client.watch(None, Some(1)).take(listed.len());
    assert_eq!(watched.collect::<Result<Vec<_>, _>>().unwrap(), listed);
    let granted = listed.iter().find(|it| it.event_type() == "ReservationGranted");
    assert_eq!(granted.unwrap().actor.reason.as_deref(), Some("INC-7"));
    // What comes later is seen, and only what is requested.
    let mut watch = client.watch(Some("team-b"), Some(1));
    let later = std::thread::scope(|scope| {
        let next = scope.spawn(|| watch.next().unwrap());
        client.reserve("team-a", &request("u-2", "1")).unwrap();
        client.reserve("team-b", &request("u-3", "1")).unwrap();
        next.join().unwrap()
    });
    assert_eq!(later.unwrap().event["uid"], "u-3");
}

#[test]
fn rights_and_quotas_are_told_apart() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("tokens.toml");
    let namespaces: Vec<Pattern> = vec!["team-a".parse().unwrap()];
    let issued = issue("ci", vec![Role::Reserve], namespaces, None).unwrap();
    let record = &issued.record;
    let text = format!(
        "[[tokens]]\nid = \"{}\"\nhash = \"{}\"\nprincipal = \"ci\"\nroles = [\"reserve\"]\nnamespaces = [\"team-a\"]\n",
        record.id,
        record.hash.to_hex()
    );
    fs::write(&path, text).unwrap();
    let daemon = Quotad::start(directory.path(), &["--auth.tokens_file=tokens.toml"]);
    let anonymous = Client::new(&daemon.api, Options::default()).unwrap();
    let refused = anonymous.reserve("team-a", &request("u-1", "1")).unwrap_err();
    assert!(matches!(&refused, Error::Forbidden(it) if it.status == 401), "{refused:?}");
    let options = Options {
        token: Some(Token::Text(issued.token.reveal().to_owned())),
        ..Options::default()
    };
    let client = Client::new(&daemon.api, options).unwrap();
    client.reserve("team-a", &request("u-1", "1")).unwrap();
    let refused = client.reserve("team-b", &request("u-2", "1")).unwrap_err();
    let Error::Forbidden(refusal) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.reason(), Some(Reason::Forbidden));
    let status = client.status().unwrap();
    assert_eq!(&*status.caller.principal, "ci");
}

/// Reads an answer as its type, and writes it anew: every byte has to be there.
fn is_whole<T: DeserializeOwned + Serialize>(daemon: &Quotad, path: &str) -> T {
    let raw = text(daemon, path);
    let read: T = serde_json::from_str(&raw).unwrap_or_else(|error| panic!("{error}: {raw}"));
    assert_eq!(serde_json::to_string(&read).unwrap(), raw, "{path}");
    read
}

fn text(daemon: &Quotad, path: &str) -> String {
    let url = format!("{}{path}", daemon.api);
    let mut answer = agent(REQUEST).get(url).call().unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.body_mut().read_to_string().unwrap()
}

#[test]
fn types_say_all_that_the_daemon_writes() {
    let directory = TempDir::new().unwrap();
    let (daemon, client) = start(&directory);
    let group = json!({"selector": {"labels": {"matchLabels": {"team": "red"}}}, "hard": {"pods": "9"},
                       "labels": {"of": "finance"}});
    let mut put = agent(REQUEST).put(format!("{}/v1/groups/red", daemon.api));
    put = put.header("content-type", "application/json");
    assert_eq!(put.send(group.to_string()).unwrap().status(), 201);
    let events = [
        json!({"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "team-a", "uid": "n-1", "resourceVersion": "5", "labels": {"team": "red"}}}}),
        json!({"type": "ADDED", "namespace": "team-a", "resource": "widgets.example.com", "name": "w", "uid": "w-1",
               "resourceVersion": "42", "usage": {"requests.cpu": "500m"}}),
        json!({"type": "ADDED", "namespace": "team-a"}),
    ];
    let lines: Vec<_> = events.iter().map(Value::to_string).collect();
    let answer = client.send_events(lines.join("\n").into_bytes()).unwrap();
    assert_eq!((answer.accepted, answer.rejected.len()), (2, 1), "{answer:?}");
    client.reserve("team-a", &request("u-1", "1")).unwrap();
    client.reserve("team-a", &request("u-2", "1")).unwrap();
    client.reserve("team-a", &request("u-3", "1")).unwrap();
    client.commit("team-a", "u-2", None).unwrap();
    client.release("team-a", "u-3").unwrap();
    client.reserve("team-a", &request("u-4", "4")).unwrap_err();

    let quota: Quota<'static> = is_whole(&daemon, "/v1/namespaces/team-a/quotas/compute");
    assert_eq!(quota.status.reservations.len(), 1);
    is_whole::<Page<Quota<'static>>>(&daemon, "/v1/quotas?limit=1");
    assert_eq!(collected(client.quotas(None, Some("tier=gold"))).len(), 1);
    assert!(collected(client.quotas(Some("team-a"), Some("tier=tin"))).is_empty());
    let red: Group = is_whole(&daemon, "/v1/groups/red");
    assert_eq!(red.status.members, 1);
    assert_eq!(client.set_group(&red).unwrap().resource_version, red.resource_version);
    is_whole::<Page<Group>>(&daemon, "/v1/groups");
    assert_eq!(collected(client.groups(Some("of=finance"))).len(), 1);
    assert!(collected(client.groups(Some("of=it"))).is_empty());
    let usage: GroupUsage = is_whole(&daemon, "/v1/groups/red/usage");
    let typed = client.group_usage("red", When::Now).unwrap();
    assert_eq!((typed.group, typed.namespaces.len()), (usage.group, 1));
    for state in ["pending", "committed", "observed", "released", "expired"] {
        let path = format!("/v1/namespaces/team-a/reservations?state={state}");
        is_whole::<Page<Reservation<'static>>>(&daemon, &path);
    }
    is_whole::<Reservation<'static>>(&daemon, "/v1/namespaces/team-a/reservations/u-1");
    is_whole::<Usage>(&daemon, "/v1/namespaces/team-a/usage");
    let from = quota.metadata.creation_timestamp.unwrap();
    let path = format!("/v1/namespaces/team-a/usage/history?from={from}&step=1h");
    let history: UsageHistory = is_whole(&daemon, &path);
    let step = Some("1h".parse().unwrap());
    let typed = client.usage_history("team-a", from, None, step).unwrap();
    assert_eq!((typed.step, typed.points.len()), (history.step, history.points.len()));
    is_whole::<Explanation>(&daemon, "/v1/namespaces/team-a/explain?resource=requests.cpu&limit=1");
    for quota in ["", "&quota=compute"] {
        let path = format!("/v1/namespaces/team-a/explain?resource=requests.cpu{quota}");
        let parts: Explanation = is_whole(&daemon, &path);
        let kinds: Vec<_> = parts.items.iter().map(|part| part.kind).collect();
        for kind in [Kind::Object, Kind::Commit, Kind::Reservation] {
            assert!(kinds.contains(&kind), "{kinds:?}");
        }
    }
    is_whole::<NamespacePage>(&daemon, "/v1/usage");
    assert_eq!(collected(client.namespaces(Some("team"), When::Now)).len(), 1);
    let denials: Page<Denial> = is_whole(&daemon, "/v1/namespaces/team-a/denials");
    assert_eq!(denials.items.len(), 1);
    assert_eq!(collected(client.denials(None)), denials.items);
    is_whole::<Page<Object<'static>>>(&daemon, "/v1/namespaces/team-a/objects");
    assert_eq!(collected(client.objects(None, Some("widgets.example.com"))).len(), 1);
    // What happened has fields in the order of each event, which a type for all of them does not keep.
    let raw: Value = serde_json::from_str(&text(&daemon, "/v1/entries")).unwrap();
    let entries: Page<Entry> = serde_json::from_value(raw.clone()).unwrap();
    assert_eq!(serde_json::to_value(&entries).unwrap(), raw);
    is_whole::<Page<DeadLetter>>(&daemon, "/v1/dead-letters");
    is_whole::<Status>(&daemon, "/v1/status");
    assert!(client.delete_group("red").is_ok() && client.delete_quota("team-a", "compute").is_ok());
    assert!(collected(client.groups(None)).is_empty());
}

#[test]
fn problems_say_all_that_the_daemon_writes() {
    let directory = TempDir::new().unwrap();
    let (daemon, client) = start(&directory);
    client.reserve("team-a", &request("u-1", "3")).unwrap();
    client.release("team-a", "u-1").unwrap();
    let send = |body: &Value| -> Value {
        let url = format!("{}/v1/namespaces/team-a/reservations", daemon.api);
        let mut answer = agent(Duration::from_secs(20)).post(url).send_json(body).unwrap();
        assert!(!answer.status().is_success(), "{body}");
        serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap()
    };
    let bodies = [
        serde_json::to_value(request("u-2", "5")).unwrap(),
        serde_json::to_value(request("u-1", "3")).unwrap(),
        json!({"reservedBy": {"uid": "u-3"}, "reserved": {"pods": "many"}, "ttl": "no"}),
        json!({"reservedBy": 1}),
    ];
    for body in bodies {
        let raw = send(&body);
        let read: Problem = serde_json::from_value(raw.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), raw);
        assert!(Reason::named(&read.reason).is_some_and(|it| it.status() == read.status));
    }
}
