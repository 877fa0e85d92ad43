//! Where a watch begins, when nothing has come yet.

use serde_json::{Value, json};

use super::{
    Run, problem, run,
    stub::{Answer, Request, Stub},
};

const TIME: &str = "2020-01-01T00:00:00Z";

fn as_of(sequence: u64) -> Value {
    json!({"sequence": sequence, "time": TIME})
}

fn entry(sequence: u64, principal: &str) -> Value {
    json!({"sequence": sequence, "time": TIME, "actor": {"principal": principal},
           "event": {"type": "QuotaSet", "name": "q"}})
}

fn ok(body: impl ToString) -> Answer {
    (200, Vec::new(), body.to_string())
}

/// Answers everything but watches, which it gives these bodies, one after the other, and then refuses.
fn stub(
    watches: &'static [&'static str],
    answer: impl Fn(&Request) -> Value + Send + 'static,
) -> Stub {
    let mut left = watches.iter();
    let watched = std::sync::Mutex::new(move || left.next());
    Stub::new(move |_, request| {
        if !request.line.starts_with("GET /v1/watch") {
            return ok(answer(request));
        }
        match (watched.lock().unwrap())() {
            Some(body) => ok(body),
            None => (410, Vec::new(), problem("Compacted", "gone").to_string()),
        }
    })
}

/// Behind which entry each watch began.
fn begins(stub: &Stub) -> Vec<Option<String>> {
    let asked = stub.asked().into_iter();
    let watches = asked.filter(|request| request.line.starts_with("GET /v1/watch"));
    watches.map(|request| request.headers.get("last-event-id").cloned()).collect()
}

fn refused(run: &Run) {
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.ends_with("error: gone\n"), "{run:?}");
}

#[test]
fn what_comes_before_the_first_entry_of_a_broken_watch_is_not_missed() {
    let stub = stub(&[": hello\n\n"], |_| {
        json!({"version": "1", "caller": {"principal": "p", "roles": ["read"], "readsAllNamespaces": true},
               "caughtUp": true, "sources": [], "asOf": as_of(7)})
    });
    refused(&run(&stub.url, "watch -n a"));
    let seven = Some("7".to_owned());
    assert_eq!(begins(&stub), [seven.clone(), seven]);
}

#[test]
fn a_watch_behind_an_empty_list_begins_where_the_list_was_read() {
    let page = |request: &Request| match request.line.contains("continue=") {
        false => json!({"items": [], "continue": "further", "asOf": as_of(9)}),
        true => json!({"items": [], "asOf": as_of(12)}),
    };
    for (arguments, begin) in [
        ("get entries -w -n a", "9"),
        ("get entries -w --tail 3 -n a", "9"),
        ("get entries -w --from 5 -n a", "4"),
    ] {
        let stub = stub(&[], page);
        refused(&run(&stub.url, arguments));
        assert_eq!(begins(&stub), [Some(begin.to_owned())], "{arguments}");
    }
}

#[test]
fn a_watch_behind_a_sorted_list_begins_at_its_latest_entry() {
    let entries = |_: &Request| {
        let items = [entry(4, "c"), entry(5, "a"), entry(6, "b")];
        json!({"items": items, "asOf": as_of(6)})
    };
    let stub = stub(&[], entries);
    let run = run(&stub.url, "get entries -w -o name --sort-by .actor.principal");
    refused(&run);
    assert_eq!(run.out, "entry/5\nentry/6\nentry/4\n");
    assert_eq!(begins(&stub), [Some("6".to_owned())]);
}

#[test]
fn each_further_document_of_yaml_is_parted_from_the_one_before() {
    static ENTRIES: [&str; 1] = [concat!(
        "id: 1\ndata: {\"sequence\":1,\"time\":\"2020-01-01T00:00:00Z\",\"actor\":{\"principal\":\"p\"},\"event\":{\"type\":\"QuotaSet\"}}\n\n",
        "id: 2\ndata: {\"sequence\":2,\"time\":\"2020-01-01T00:00:00Z\",\"actor\":{\"principal\":\"p\"},\"event\":{\"type\":\"QuotaSet\"}}\n\n"
    )];
    let stub = stub(&ENTRIES, |_| json!({}));
    let run = run(&stub.url, "watch --from 1 -o yaml");
    refused(&run);
    let documents: Vec<_> = run.out.split("---\n").collect();
    assert_eq!(documents.len(), 2, "{run:?}");
    assert!(documents[0].contains("sequence: 1\n") && documents[1].contains("sequence: 2\n"));
}
