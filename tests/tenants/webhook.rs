//! Reviews that would let something in uncounted.

use std::net::TcpStream;

use serde_json::{Map, Value, json};

use super::{
    pod, review,
    support::{
        callers::{Callers, Principal},
        exchange::exchange,
    },
};

const WHO: &[Principal<'_>] =
    &[("hook", "reserve", "*"), ("bridge", "ingest", "*"), ("root", "admin,read,reserve", "*")];

/// A daemon with a quota in the namespace `a`.
fn start(hard: Value) -> Callers {
    let callers = Callers::start(WHO, &[]);
    let quota = json!({"spec": {"hard": hard}});
    callers.expect(201, "root", "PUT", "/v1/namespaces/a/quotas/q", &quota);
    callers
}

/// 200 if it is admitted, or the code of the denial. Whatever it is, it is an answer that an API server goes by.
fn code(callers: &Callers, review: &Value) -> u64 {
    let answer = callers.expect(200, "hook", "POST", "/admit", review);
    let response = &answer["response"];
    assert_eq!(response["uid"], review["request"]["uid"], "{answer}");
    match response["allowed"].as_bool().unwrap() {
        true => 200,
        false => response["status"]["code"].as_u64().unwrap(),
    }
}

/// `used+reserved` of a resource.
fn counted(callers: &Callers, resource: &str) -> String {
    let quota = callers.get("root", "/v1/namespaces/a/quotas/q");
    let amount = |which: &str| {
        let amount = quota["status"][which][resource].as_str();
        amount.unwrap_or("0").to_owned()
    };
    format!("{}+{}", amount("used"), amount("reserved"))
}

/// A review of a pod that asks for many resources, with names so long.
fn wide(uid: &str, length: usize) -> Value {
    let mut review = review("a", uid, "1");
    let part = vec!["x".repeat(length / 4); 4].join(".");
    let amounts = (0..1060).map(|number| (format!("{part}/r{number}"), json!("1")));
    let amounts: Map<_, _> = amounts.collect();
    let container = &mut review["request"]["object"]["spec"]["containers"][0];
    container["resources"] = json!({"requests": amounts, "limits": amounts});
    review
}

#[test]
fn a_review_that_is_too_large_opens_nothing() {
    let limited = format!("requests.{}/r7", ["xxxxx"; 4].join("."));
    let callers = start(json!({&limited: "1", "pods": "9"}));
    assert_eq!(code(&callers, &wide("first", 20)), 200);
    assert_eq!(counted(&callers, &limited), "0+1");
    assert_eq!(code(&callers, &wide("second", 20)), 403);
    // What cannot be recorded is denied.
    assert_eq!(code(&callers, &wide("wider", 240)), 413);
    // So is what cannot even be read.
    let mut long = review("a", "long", "1");
    let notes = "x".repeat(9 << 20);
    long["request"]["object"]["metadata"]["annotations"] = json!({"notes": notes});
    assert_eq!(code(&callers, &long), 413);
    assert_eq!(counted(&callers, "pods"), "0+1");
}

fn see(callers: &Callers, change: &str, uid: &str, name: &str, version: u64) {
    let mut object = pod("a", uid, &version.to_string(), "1");
    object["metadata"]["name"] = json!(name);
    let event = json!([{"type": change, "object": object}]);
    let answer = callers.expect(200, "bridge", "POST", "/v1/events", &event);
    assert_eq!(answer["accepted"], 1, "{answer}");
}

/// An API server has deleted pods and stored others under their names before anything of that is seen here.
#[test]
fn pods_made_again_under_living_names_never_pass_the_limit() {
    const PODS: u64 = 10;
    let callers = start(json!({"pods": PODS.to_string()}));
    let of = |round: &str, number: u64| (format!("{round}-{number}"), format!("web-{number}"));
    let reviewed = |round: &str, number: u64| {
        let (uid, name) = of(round, number);
        let mut review = review("a", &uid, "1");
        review["request"]["name"] = json!(name);
        review["request"]["object"]["metadata"]["name"] = json!(name);
        code(&callers, &review)
    };
    let seen = |change: &str, round: &str, number: u64, version: u64| {
        let (uid, name) = of(round, number);
        see(&callers, change, &uid, &name, version);
    };
    for number in 0..PODS {
        assert_eq!(reviewed("first", number), 200);
        seen("ADDED", "first", number, 10 + number);
    }
    // In a full namespace each has its name's room.
    for number in 0..PODS {
        assert_eq!(reviewed("second", number), 200);
    }
    assert_eq!(counted(&callers, "pods"), "10+0");
    for number in 0..PODS {
        seen("DELETED", "first", number, 100 + number);
        let held = number + 1;
        assert_eq!(counted(&callers, "pods"), format!("{}+{held}", PODS - held));
        let other = review("a", &format!("other-{number}"), "1");
        assert_eq!(code(&callers, &other), 403, "ten are stored");
    }
    for number in 0..PODS {
        seen("ADDED", "second", number, 200 + number);
    }
    assert_eq!(counted(&callers, "pods"), "10+0");
    assert_eq!(code(&callers, &review("a", "late", "1")), 403);
}

#[test]
fn the_namespace_of_a_review_is_that_of_its_request() {
    let callers = start(json!({"pods": "1"}));
    let claims = |uid: &str, namespace: &str, claimed: &str| {
        let mut review = review(namespace, uid, "1");
        review["request"]["object"]["metadata"]["namespace"] = json!(claimed);
        code(&callers, &review)
    };
    assert_eq!(claims("first", "a", "elsewhere"), 200);
    assert_eq!(counted(&callers, "pods"), "0+1");
    assert_eq!(claims("second", "a", "elsewhere"), 403);
    // Where nothing is limited, nothing is, whatever the object claims.
    assert_eq!(claims("third", "elsewhere", "a"), 200);
    assert_eq!(counted(&callers, "pods"), "0+1");
}

/// A review as text, in which this field of `at` has a second value.
fn with_second(review: &Value, at: &str, field: &str, second: &Value) -> String {
    let object = review.pointer(at).unwrap().to_string();
    let more = format!("{{{}:{second},", json!(field));
    let twice = object.replacen('{', &more, 1);
    review.to_string().replace(&object, &twice)
}

/// A review that holds a field twice says two things, of which only one was decided.
#[test]
fn a_review_with_a_field_twice_is_denied() {
    let callers = start(json!({"pods": "0"}));
    let whole = review("a", "u", "1");
    let elsewhere = review("elsewhere", "u", "1");
    let cases = [
        ("", "request", elsewhere["request"].clone()),
        ("", "kind", json!("AdmissionReview")),
        ("", "apiVersion", json!("admission.k8s.io/v1")),
        ("/request", "namespace", json!("elsewhere")),
        ("/request", "operation", json!("DELETE")),
        ("/request", "name", json!("other")),
        ("/request", "object", json!({})),
        ("/request", "oldObject", json!({})),
        ("/request", "dryRun", json!(true)),
        ("/request", "uid", json!("other")),
        ("/request", "subResource", json!("status")),
        ("/request", "kind", json!({"kind": "Event", "version": "v1"})),
        ("/request", "resource", json!({"resource": "events", "version": "v1"})),
        ("/request", "userInfo", json!({"username": "root"})),
    ];
    let mut full = whole.clone();
    for (field, value) in [("oldObject", json!({})), ("dryRun", json!(false))] {
        full["request"][field] = value;
    }
    full["request"]["subResource"] = json!("");
    for (at, field, second) in cases {
        // The other value comes first, and last.
        let first = with_second(&full, at, field, &second);
        let mut other = full.clone();
        let own = full.pointer(at).unwrap()[field].clone();
        other.pointer_mut(at).unwrap()[field] = second;
        let last = with_second(&other, at, field, &own);
        for text in [first, last] {
            let authorization = callers.authorization("hook").unwrap();
            let headers =
                [("authorization", &*authorization), ("content-type", "application/json")];
            let mut stream =
                TcpStream::connect(callers.daemon.ready["api"].as_str().unwrap()).unwrap();
            let answer =
                exchange(&mut stream, ("POST", "/admit"), &headers, text.as_bytes()).unwrap();
            assert_eq!(answer.status, 200, "{field}: {answer:?}");
            let response = &answer.json()["response"];
            assert_eq!(response["allowed"], false, "{field}: {answer:?}");
            assert_eq!(response["status"]["code"], 400, "{field}: {answer:?}");
            let message = response["status"]["message"].as_str().unwrap();
            assert!(message.contains(&format!("{field} occurs twice")), "{message}");
        }
    }
    // The largest of them are read in another way.
    let mut large = whole;
    large["request"]["object"]["metadata"]["annotations"] = json!({"notes": "x".repeat(9 << 20)});
    let text = with_second(&large, "/request", "namespace", &json!("elsewhere"));
    assert!(text.len() > 9 << 20);
    let authorization = callers.authorization("hook").unwrap();
    let headers = [("authorization", &*authorization), ("content-type", "application/json")];
    let mut stream = TcpStream::connect(callers.daemon.ready["api"].as_str().unwrap()).unwrap();
    let answer = exchange(&mut stream, ("POST", "/admit"), &headers, text.as_bytes()).unwrap();
    assert_eq!(answer.json()["response"]["allowed"], false, "{answer:?}");
}

/// What no API server sends must not be read as an object that counts for nothing, or for less.
#[test]
fn an_object_that_is_none_or_of_another_request_is_denied() {
    let callers = start(json!({"pods": "9", "requests.cpu": "9"}));
    let mut update = review("a", "u", "2");
    update["request"]["operation"] = json!("UPDATE");
    update["request"]["object"]["metadata"]["resourceVersion"] = json!("2");
    update["request"]["oldObject"] = pod("a", "u", "1", "2");
    let create = review("a", "u", "1");
    let list = json!([{"name": "n", "uid": "u"}, {}]);
    for (whole, at, value, why) in [
        (&create, "/request/object", list.clone(), "expected an object"),
        (&create, "/request/object", json!([]), "expected an object"),
        (&create, "/request/object", json!("text"), "expected an object"),
        (&create, "/request/object", json!(7), "expected an object"),
        (&create, "/request/object/metadata", list, "metadata is not a JSON object"),
        (&create, "/request/object/spec", json!([]), "spec is not a JSON object"),
        (&create, "/request/object/kind", json!("Event"), "kind of the request"),
        (&create, "/request/object/apiVersion", json!("v2"), "API version"),
        (&create, "/request/oldObject", pod("a", "u", "1", "1"), "no old object"),
        (&create, "/request/kind", json!(["", "v1", "Pod"]), "cannot read"),
        (&create, "/request/resource", json!(["", "pods"]), "cannot read"),
        (&create, "/request/userInfo", json!(["root"]), "cannot read"),
        (&create, "/request/namespace", json!(7), "cannot read"),
        (&create, "/request/operation", json!(["CREATE"]), "cannot read"),
        (&update, "/request/oldObject", json!([]), "expected an object"),
        (&update, "/request/name", json!("other"), "name of the request"),
        (&update, "/request/object/metadata/uid", json!("v"), "uid of the old object"),
        (&update, "/request/oldObject/kind", json!("Event"), "kind of the request"),
    ] {
        let mut wrong = whole.clone();
        let (parent, field) = at.rsplit_once('/').unwrap();
        wrong.pointer_mut(parent).unwrap()[field] = value;
        let answer = callers.expect(200, "hook", "POST", "/admit", &wrong);
        let response = &answer["response"];
        assert_eq!(response["allowed"], false, "{at}: {answer}");
        assert_eq!(response["status"]["code"], 400, "{at}: {answer}");
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.contains(why), "{at}: {message}");
    }
    // A request or a review that is a list names no uid to answer.
    let mut wrong = create.clone();
    wrong["request"] = json!(["uid", {}, {}]);
    callers.expect(400, "hook", "POST", "/admit", &wrong);
    let wrong = json!(["admission.k8s.io/v1", "AdmissionReview", create["request"]]);
    callers.expect(400, "hook", "POST", "/admit", &wrong);
    assert_eq!(counted(&callers, "pods"), "0+0");
    assert_eq!(code(&callers, &create), 200);
}
