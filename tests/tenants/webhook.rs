//! Reviews that would let something in uncounted.

use serde_json::{Map, Value, json};

use super::{
    pod, review,
    support::callers::{Callers, Principal},
};

const WHO: &[Principal<'_>] = &[
    ("hook", "reserve", "*"),
    ("bridge", "ingest", "*"),
    ("root", "admin,read,reserve", "*"),
];

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
