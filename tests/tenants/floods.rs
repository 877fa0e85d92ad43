//! Floods of one principal beside others. What is compared is the order in which things are decided and answered, not how
//! long they take.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Instant,
};

use serde_json::{Map, Value, json};

use super::{
    review,
    support::{
        PATIENCE,
        callers::{Callers, Principal},
    },
};

const WHO: &[Principal<'_>] = &[
    ("flood", "read,reserve", "*"),
    ("filler", "reserve", "*"),
    ("other", "read,reserve", "*"),
    ("hook", "reserve", "*"),
    ("bridge", "ingest", "*"),
    ("root", "admin,read", "*"),
];

const BATCH: &str = "/v1/reservations:batch";
const OPEN: &str = "/v1/namespaces/open/reservations";

fn pods(namespace: &str, uid: &str) -> Value {
    json!({"namespace": namespace, "reservedBy": {"uid": uid}, "reserved": {"pods": "1"}, "ttl": "10m"})
}

/// The sequences of what was granted in the namespace `open`, by uid.
fn granted(callers: &Callers) -> Vec<(String, u64)> {
    let (mut granted, mut next) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/entries?namespace=open&continue={next}");
        let page = callers.get("root", &path);
        for entry in page["items"].as_array().unwrap() {
            if entry["event"]["type"] == "ReservationGranted" {
                let uid = entry["event"]["uid"].as_str().unwrap().to_owned();
                granted.push((uid, entry["sequence"].as_u64().unwrap()));
            }
        }
        match page["continue"].as_str() {
            Some(more) => more.clone_into(&mut next),
            None => return granted,
        }
    }
}

/// Each batch is one request, and all of it waits from the moment that it is there. What others ask for meanwhile is
/// decided between its parts.
#[test]
fn others_are_decided_between_the_parts_of_a_flood_of_batches() {
    const BATCHES: usize = 5;
    const ITEMS: usize = 1000;
    let callers = Callers::start(WHO, &["--limits.request_timeout=10m"]);
    let quota = json!({"spec": {"hard": {"pods": ITEMS.to_string()}}});
    callers.expect(201, "root", "PUT", "/v1/namespaces/a/quotas/q", &quota);
    let quota = json!({"spec": {"hard": {"pods": "100000"}}});
    callers.expect(201, "root", "PUT", "/v1/namespaces/open/quotas/q", &quota);
    let fill: Vec<_> = (0..ITEMS).map(|number| pods("a", &format!("fill-{number}"))).collect();
    let filled = callers.expect(200, "filler", "POST", BATCH, &json!({"items": fill}));
    let statuses = filled["items"].as_array().unwrap().iter();
    assert!(statuses.clone().all(|item| item["status"] == 201), "{filled}");

    // The first and the last of each batch are granted, so that entries show when it was decided.
    let batch = |number: usize| {
        let denied = (2..ITEMS).map(|item| pods("a", &format!("denied-{number}-{item}")));
        let first = pods("open", &format!("begin-{number}"));
        let last = pods("open", &format!("end-{number}"));
        let items: Vec<_> = [first].into_iter().chain(denied).chain([last]).collect();
        json!({"items": items})
    };
    let patience = 10 * PATIENCE;
    thread::scope(|scope| {
        let callers = &callers;
        let floods = (0..BATCHES).map(|number| {
            let batch = batch(number);
            scope.spawn(move || callers.call_within(patience, "flood", "POST", BATCH, &batch))
        });
        let floods: Vec<_> = floods.collect();
        let deadline = Instant::now() + patience;
        while callers.get("root", OPEN)["items"].as_array().unwrap().is_empty() {
            assert!(Instant::now() < deadline, "the flood does not begin");
        }
        let mut round = 0;
        while round == 0 || (round < 100 && floods.iter().any(|flood| !flood.is_finished())) {
            callers.expect(201, "other", "POST", OPEN, &pods_of_path(&format!("other-{round}")));
            let review = review("open", &format!("hook-{round}"), "1");
            let answer = callers.expect(200, "hook", "POST", "/admit", &review);
            assert_eq!(answer["response"]["allowed"], true, "{answer}");
            round += 1;
        }
        for flood in floods {
            let (status, answer) = flood.join().unwrap();
            assert_eq!(status, 200, "{answer}");
            let items = answer["items"].as_array().unwrap();
            let denied = items.iter().filter(|item| item["status"] == 403);
            assert_eq!(denied.count(), ITEMS - 2);
        }
    });

    let granted = granted(&callers);
    let at = |uid: &str| granted.iter().find(|(name, _)| name == uid).unwrap().1;
    let spans = (0..BATCHES).map(|it| (at(&format!("begin-{it}")), at(&format!("end-{it}"))));
    let spans: Vec<_> = spans.collect();
    let last_begins = spans.iter().map(|(begin, _)| *begin).max().unwrap();
    for who in ["other", "hook"] {
        let first = at(&format!("{who}-0"));
        assert!(first < last_begins, "{who} waited for all of the flood: {granted:?}");
        let own = granted.iter().filter(|(uid, _)| uid.starts_with(who));
        let inside =
            own.filter(|(_, own)| spans.iter().any(|(begin, end)| begin < own && own < end));
        assert!(inside.count() > 0, "{who} waited for whole batches: {granted:?}");
    }
}

/// The same for a path that names the namespace.
fn pods_of_path(uid: &str) -> Value {
    json!({"reservedBy": {"uid": uid}, "reserved": {"pods": "1"}})
}

/// Asks until it is answered with success: also what is small may take longer than a short time for requests allows, on
/// a busy machine.
fn at_last(callers: &Callers, who: &str, method: &str, path: &str, body: &Value) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (status, answer) = callers.call(who, method, path, body);
        if (200..300).contains(&status) {
            return;
        }
        assert_eq!((status, &answer["reason"]), (503, &json!("Timeout")), "{answer}");
        assert!(Instant::now() < deadline, "{who}: {method} {path}: {answer}");
    }
}

/// What one principal reads at large waits for itself, and no request takes longer than it may.
#[test]
fn wide_lists_end_with_the_time_of_their_requests() {
    const QUOTAS: usize = 100;
    const LIMITS: usize = 1000;
    const LISTS: usize = 16;
    let arguments = [
        "--limits.request_timeout=1s",
        "--limits.limits_per_quota=1000",
        "--limits.resources_per_namespace=2000",
        // With a series for each limit, the metrics take longer than a request may.
        "--limits.metrics_series=1",
    ];
    let callers = Callers::start(WHO, &arguments);
    let hard = (0..LIMITS).map(|number| (format!("example.com/r{number}"), json!("1")));
    let quota = json!({"spec": {"hard": hard.collect::<Map<_, _>>()}});
    for number in 0..QUOTAS {
        let path = format!("/v1/namespaces/wide/quotas/q{number}");
        at_last(&callers, "root", "PUT", &path, &quota);
    }
    let lists = thread::scope(|scope| {
        let list = || {
            let path = "/api/v1/namespaces/wide/resourcequotas";
            callers.call("flood", "GET", path, &Value::Null)
        };
        let lists: Vec<_> = (0..LISTS).map(|_| scope.spawn(list)).collect();
        let mut round = 0;
        while lists.iter().any(|list| !list.is_finished()) {
            at_last(&callers, "other", "POST", OPEN, &pods_of_path(&format!("u{round}")));
            round += 1;
        }
        lists.into_iter().map(|list| list.join().unwrap()).collect::<Vec<_>>()
    });
    let (whole, cut): (Vec<_>, Vec<_>) = lists.into_iter().partition(|(status, _)| *status == 200);
    for (status, answer) in &cut {
        assert_eq!((*status, &answer["reason"]), (503, &json!("Timeout")), "{answer}");
    }
    println!("{} lists are whole, {} were cut", whole.len(), cut.len());
    assert!(!cut.is_empty(), "{LISTS} lists within a second?");
    assert!(
        callers.metric("quota_ledger_limit_reached_total{limit=\"limits.request_timeout\"}") > 0
    );
    at_last(&callers, "other", "POST", OPEN, &pods_of_path("last"));
    at_last(&callers, "flood", "GET", OPEN, &Value::Null);
}

/// The journal is read by so many at a time, and no more than half of them read for one principal.
#[test]
fn a_flood_of_readers_of_the_journal_waits_for_itself() {
    const ENTRIES: usize = 20_000;
    const FLOOD: usize = 64;
    let callers = Callers::start(WHO, &["--limits.request_timeout=10m"]);
    for part in 0..ENTRIES / 1000 {
        let events = (0..1000).map(|number| {
            let uid = format!("w{}", part * 1000 + number);
            json!({"type": "ADDED", "namespace": "a", "resource": "widgets.example.com", "name": uid,
                "uid": uid, "resourceVersion": "1", "usage": {"requests.example.com/units": "1"}})
        });
        let answer = callers.expect(200, "bridge", "POST", "/v1/events", &events.collect());
        assert_eq!(answer["accepted"], 1000, "{answer}");
    }
    let answered = AtomicUsize::new(0);
    let (has_begun, begun) = mpsc::channel();
    let answered_before = thread::scope(|scope| {
        // Looks at all entries, and finds none.
        let read = || {
            let path = "/v1/entries?from=1&namespace=nowhere";
            let answer = callers.call_within(10 * PATIENCE, "flood", "GET", path, &Value::Null);
            answered.fetch_add(1, Ordering::SeqCst);
            let _ = has_begun.send(());
            assert_eq!(answer.0, 200, "{}", answer.1);
        };
        (0..FLOOD).for_each(|_| drop(scope.spawn(read)));
        begun.recv_timeout(PATIENCE).unwrap();
        callers.get("other", "/v1/entries?from=1&limit=1");
        answered.load(Ordering::SeqCst)
    });
    println!("{answered_before} of {FLOOD} were answered before another principal's");
    assert!(answered_before <= FLOOD / 2, "{answered_before} of {FLOOD} came first");
}

/// Requests that fail are counted, and few of them are logged.
#[test]
fn a_flood_of_requests_that_fail_writes_few_lines() {
    const REQUESTS: usize = 300;
    const PER_SECOND: usize = 10;
    let callers = Callers::start(WHO, &[]);
    let too_new = "/api/v1/namespaces/a/resourcequotas?resourceVersion=99999999999";
    let unreadable = json!([{"type": "ADDED", "object": {"kind": "Pod", "metadata": 7}}]);
    let began = Instant::now();
    for _ in 0..REQUESTS {
        callers.expect(504, "flood", "GET", too_new, &Value::Null);
        callers.expect(200, "bridge", "POST", "/v1/events", &unreadable);
    }
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap() + 2;
    let log = callers.daemon.log();
    for text in ["request failed", "events were rejected"] {
        let lines = log.lines().filter(|line| line.contains(text)).count();
        assert!(lines > 0 && lines <= seconds * PER_SECOND, "{lines} lines say {text:?}");
    }
}
