//! Reservations, checks, events and watches.

use serde_json::{Value, json};

use super::{Stub, problem, run, run_with};

fn reservation(state: &str) -> Value {
    json!({
        "namespace": "default", "reservedBy": {"kind": "Pod", "name": "web", "uid": "u1"},
        "reserved": {"requests.cpu": "2"}, "state": state,
        "createdTime": "2020-01-01T00:00:00Z", "expirationTime": "2020-01-01T00:00:30Z"
    })
}

fn denial() -> Value {
    let mut problem = problem(
        "ExceedsHard",
        "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
    );
    problem["quotas"] = json!([{"name": "q", "resources": [
        {"resource": "pods", "hard": "2", "used": "1", "reserved": "1", "requested": "1"}]}]);
    problem
}

#[test]
fn a_reservation_is_made_from_flags() {
    let stub = Stub::always(201, reservation("pending"));
    let run = run(
        &stub.url,
        "reserve --uid u1 --kind Pod --name web --request cpu=2,memory=1Gi --ttl 90s -n team-a",
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.out, "reservation/u1 granted, held until 2020-01-01T00:00:30Z\n");
    let request = &stub.asked()[0];
    assert_eq!(request.line, "POST /v1/namespaces/team-a/reservations");
    assert_eq!(
        serde_json::from_str::<Value>(&request.body).unwrap(),
        json!({"reservedBy": {"uid": "u1", "kind": "Pod", "name": "web"},
               "reserved": {"cpu": "2", "memory": "1Gi"}, "ttl": "1m30s"})
    );
}

#[test]
fn a_repeated_reservation_is_said_to_be_that() {
    let body = reservation("observed").to_string();
    let stub = Stub::new(move |_, _| (200, vec![("Idempotency-Replayed", "true")], body.clone()));
    let run = run(&stub.url, "reserve --uid u1 --request cpu=2");
    assert_eq!((run.code, run.out.as_str()), (0, "reservation/u1 granted before (observed)\n"));
}

#[test]
fn a_reservation_is_made_for_an_object() {
    let stub = Stub::always(201, reservation("pending"));
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: a}\nspec: {containers: []}\n";
    assert_eq!(run_with(&stub.url, "reserve -f - --uid u1 -o name", pod).code, 0);
    let request = &stub.asked()[0];
    assert_eq!(request.line, "POST /v1/namespaces/a/reservations");
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(
        body["reservedBy"],
        json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1"})
    );
    assert_eq!(body["object"]["spec"], json!({"containers": []}));
}

#[test]
fn a_denial_ends_with_10_and_shows_its_figures() {
    let stub = Stub::always(403, denial());
    let run = run(&stub.url, "reserve --uid u1 --request pods=1");
    assert_eq!((run.code, run.out.as_str()), (10, ""));
    assert_eq!(
        run.err,
        "error: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2\n\
         hint: quotactl explain pods --quota q -n default shows what takes the room, quotactl denials -n default what was denied lately\n\
         QUOTA   RESOURCE   REQUESTED   USED   OF IT RESERVED   HARD   AVAILABLE\n\
         q       pods               1      2                1      2           0\n"
    );
}

#[test]
fn a_check_is_an_answer_and_an_exit_code() {
    let stub = Stub::new(|_, request| {
        let fits = request.body.contains("small");
        let mut answer = denial();
        answer["fits"] = fits.into();
        answer["asOf"] = json!({"sequence": 1, "time": "2020-01-01T00:00:00Z"});
        (200, Vec::new(), answer.to_string())
    });
    let pod = |name: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n---\n");
    let fits = run_with(&stub.url, "check -f -", &pod("small"));
    assert_eq!((fits.code, fits.err.as_str()), (0, ""));
    assert!(fits.out.starts_with("Pod/small fits\nQUOTA "), "{}", fits.out);
    let both = run_with(&stub.url, "check -f -", &(pod("large") + &pod("small")));
    assert_eq!((both.code, both.err.as_str()), (10, ""));
    assert!(both.out.starts_with("Pod/large does not fit: exceeded quota: q"), "{}", both.out);
    assert!(both.out.contains("\nPod/small fits\n"));
    let json = run_with(
        &stub.url,
        "check -f - -o json",
        "{\"reservedBy\":{},\"reserved\":{\"cpu\":\"1\"}}",
    );
    assert_eq!(json.code, 10);
    assert_eq!(serde_json::from_str::<Value>(&json.out).unwrap()["fits"], false);
}

#[test]
fn reservations_are_extended_committed_and_released() {
    let stub = Stub::new(|_, request| match request.line.split(' ').next() {
        Some("DELETE") => (204, Vec::new(), String::new()),
        _ if request.line.ends_with("commit") => {
            (200, Vec::new(), reservation("committed").to_string())
        }
        _ => (200, Vec::new(), reservation("pending").to_string()),
    });
    assert_eq!(
        run(&stub.url, "extend u1 --ttl 60s").out,
        "reservation/u1 extended, held until 2020-01-01T00:00:30Z\n"
    );
    assert_eq!(run(&stub.url, "commit u1").out, "reservation/u1 committed\n");
    assert_eq!(run(&stub.url, "release u1").out, "reservation/u1 released\n");
    let released = run(&stub.url, "release u1 -o json").out;
    let released: serde_json::Value = serde_json::from_str(&released).unwrap();
    assert_eq!(released["reservedBy"]["uid"], "u1");
    assert_eq!(released["state"], "released");
    let requests = stub.asked();
    assert_eq!(requests[0].body, "{\"ttl\":\"1m\"}");
    assert_eq!(requests[1].body, "");
    assert_eq!(requests[2].line, "DELETE /v1/namespaces/default/reservations/u1");
}

#[test]
fn rejected_events_are_named_by_their_lines() {
    let stub = Stub::new(|number, request| {
        let lines = request.body.lines().count();
        let rejected = if number == 1 { json!([{"line": 2, "reason": "no"}]) } else { json!([]) };
        let answer = json!({"accepted": lines, "ignored": 1, "rejected": rejected});
        (200, Vec::new(), answer.to_string())
    });
    let events = "{}\n".repeat(1500);
    let run = run_with(&stub.url, "push -", &events);
    assert_eq!((run.code, run.err.as_str()), (1, "line 1002: no\n"));
    assert_eq!(run.out, "1500 accepted, 2 ignored, 1 rejected\n");
    let requests = stub.asked();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].headers["content-type"], "application/x-ndjson");
}

#[test]
fn a_busy_daemon_is_asked_again() {
    let stub = Stub::new(|number, _| match number {
        0 => (503, vec![("Retry-After", "0")], problem("Overloaded", "busy").to_string()),
        _ => (200, Vec::new(), json!({"accepted": 1, "ignored": 0, "rejected": []}).to_string()),
    });
    let run = run_with(&stub.url, "push - -o json", "{}");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(serde_json::from_str::<Value>(&run.out).unwrap()["accepted"], 1);
    assert_eq!(stub.asked().len(), 2);
}

#[test]
fn a_watch_resumes_where_it_broke() {
    let stub = Stub::new(|number, _| {
        let entry = json!({"sequence": number, "time": "2020-01-01T00:00:00Z", "actor": {"principal": "p"},
                           "event": {"type": "QuotaSet", "name": "q"}});
        match number {
            0 => (200, Vec::new(), format!(": hello\n\nid: 7\ndata: {entry}\n\n")),
            _ => (410, Vec::new(), problem("Compacted", "compacted away").to_string()),
        }
    });
    let run = run(&stub.url, "watch --from 5 -n a -o json");
    assert_eq!(run.code, 1);
    assert_eq!(serde_json::from_str::<Value>(&run.out).unwrap()["event"]["name"], "q");
    assert!(run.err.ends_with("connecting again in 1s\nerror: compacted away\n"), "{}", run.err);
    let requests = stub.asked();
    assert_eq!(requests[0].line, "GET /v1/watch?namespace=a");
    assert_eq!(requests[0].headers["last-event-id"], "4");
    assert_eq!(requests[1].headers["last-event-id"], "7");
}
