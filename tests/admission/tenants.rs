//! The webhook and tenants of the HTTP API at one daemon: neither takes the other's word, or what the other holds.

use serde_json::{Value, json};

use super::{
    harness::{pod, recorded},
    support::{
        PATIENCE,
        callers::{Callers, NOBODY, Principal},
        quotad::read,
    },
};

pub(crate) const NAMESPACE: &str = "/v1/namespaces/team-a";
pub(crate) const HELD: &str = "/v1/namespaces/team-a/reservations";

/// All who call.
const PRINCIPALS: [Principal<'static>; 7] = [
    ("hook", "reserve", "*"),
    ("tenant", "reserve", "team-a"),
    ("reader", "read", "team-a"),
    // Another one of the same namespace.
    ("other", "reserve", "team-a"),
    ("stranger", "reserve,read", "team-b"),
    ("bridge", "ingest", "*"),
    ("root", "admin,reserve,read", "*"),
];

/// A daemon, and those who call it.
pub(crate) struct World(Callers);

impl World {
    fn with(hard: Value) -> Self {
        Self::charging("[]", hard)
    }

    /// Workloads of these kinds are charged.
    pub(crate) fn charging(kinds: &str, hard: Value) -> Self {
        let charge = format!("--admission.charge={kinds}");
        let world = Self(Callers::start(&PRINCIPALS, &[&charge]));
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
            "spec": {"hard": hard}});
        let path = format!("{NAMESPACE}/quotas/q");
        assert_eq!(world.call("root", "PUT", &path, &quota).0, 201);
        world
    }

    pub(crate) fn call(&self, who: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.call_with(&[], who, method, path, body)
    }

    /// With further headers.
    pub(crate) fn call_with(
        &self,
        headers: &[(&str, &str)],
        who: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let authorization = self.0.authorization(who);
        let own = authorization.iter().map(|value| ("authorization", &**value));
        let headers: Vec<_> = headers.iter().copied().chain(own).collect();
        let answer = self.0.daemon.send(PATIENCE, (method, path), &headers, body);
        // Watches and backups: only their begin is checked.
        if answer.status().is_success() && answer.headers().get("content-length").is_none() {
            return (answer.status().as_u16(), Value::Null);
        }
        read(answer)
    }

    /// As a caller of the table in `tenancy.md`.
    pub(crate) fn call_as(
        &self,
        caller: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let who = match caller {
            "no token" => NOBODY,
            "`read`" => "reader",
            "holder" => "tenant",
            "webhook" => "hook",
            "`ingest`" => "bridge",
            "`admin`" => "root",
            who => who,
        };
        self.call(who, method, path, body)
    }

    fn is_refused(&self, who: &str, method: &str, path: &str, body: &Value) {
        let (status, answer) = self.call(who, method, path, body);
        let refusal = (status, &answer["reason"]);
        assert_eq!(refusal, (403, &json!("NotOwner")), "{method} {path}: {answer}");
    }

    pub(crate) fn admits(&self, review: &Value) -> bool {
        let (status, answer) = self.call("hook", "POST", "/admit", review);
        assert_eq!(status, 200, "{answer}");
        answer["response"]["allowed"].as_bool().unwrap()
    }

    fn shows(&self, kind: &str, review: &Value) {
        self.shows_in(kind, review, 9);
    }

    pub(crate) fn shows_in(&self, kind: &str, review: &Value, version: u64) {
        let mut object = review["request"]["object"].clone();
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let events = json!([{"type": kind, "object": object}]);
        let (status, answer) = self.call("bridge", "POST", "/v1/events", &events);
        assert_eq!((status, &answer["rejected"]), (200, &json!([])), "{answer}");
    }

    /// `used+reserved` of a resource.
    pub(crate) fn counted(&self, resource: &str) -> String {
        let path = format!("{NAMESPACE}/quotas/q");
        let (_, quota) = self.call("root", "GET", &path, &json!(null));
        let amount =
            |which: &str| quota["status"][which][resource].as_str().unwrap_or("0").to_owned();
        format!("{}+{}", amount("used"), amount("reserved"))
    }
}

fn named(name: &str, uid: &str) -> Value {
    let mut review = pod(name);
    review["request"]["object"]["metadata"]["uid"] = json!(uid);
    review
}

pub(crate) fn request(name: &str, uid: &str, reserved: Value) -> Value {
    json!({"reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}, "reserved": reserved})
}

#[test]
fn a_name_that_a_tenant_has_committed_is_not_alive() {
    let world = World::with(json!({"requests.cpu": "400m"}));
    let nothing = request("web-0", "forged", json!({}));
    assert_eq!(world.call("tenant", "POST", HELD, &nothing).0, 201);
    let commit = format!("{HELD}/forged/commit");
    assert_eq!(world.call("tenant", "POST", &commit, &json!({})).0, 200);
    assert!(!world.admits(&pod("web-0")), "500m do not fit into 400m");
    // Beside it, a name that is alive, since a source has reported it, needs no room twice.
    let world = World::with(json!({"requests.cpu": "500m"}));
    assert!(world.admits(&named("web-0", "first")));
    assert_eq!(world.counted("requests.cpu"), "0+500m");
    world.shows("ADDED", &named("web-0", "first"));
    assert!(world.admits(&named("web-0", "second")));
    assert_eq!(world.counted("requests.cpu"), "500m+0");
}

#[test]
fn a_tenant_neither_takes_nor_ends_what_the_webhook_holds() {
    let world = World::with(json!({"pods": "1"}));
    assert!(world.admits(&pod("a")));
    let held = format!("{HELD}/uid-of-a");
    let nothing = json!({});
    world.is_refused("tenant", "DELETE", &held, &nothing);
    let (commit, extend) = (format!("{held}/commit"), format!("{held}/extend"));
    world.is_refused("tenant", "POST", &commit, &json!({"reserved": {}}));
    world.is_refused("tenant", "POST", &extend, &json!({"ttl": "5m"}));
    let same_name = request("a", "mine", json!({"pods": "1"}));
    world.is_refused("tenant", "POST", HELD, &same_name);
    assert_eq!(world.counted("pods"), "0+1");
    let other = request("b", "other", json!({"pods": "1"}));
    assert_eq!(world.call("tenant", "POST", HELD, &other).0, 403);
    // A call that the API server repeats finds its hold, and what is shown takes its place.
    let mut again = pod("a");
    again["request"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    assert!(world.admits(&again));
    assert_eq!(world.counted("pods"), "0+1");
    world.shows("ADDED", &pod("a"));
    assert_eq!(world.counted("pods"), "1+0");
    let (status, answer) = world.call("root", "DELETE", &held, &nothing);
    assert_eq!((status, &answer["reason"]), (409, &json!("AlreadyObserved")));
}

#[test]
fn a_uid_that_was_used_in_another_namespace_blocks_nothing_here() {
    let world = World::with(json!({"pods": "1"}));
    let elsewhere = "/v1/namespaces/team-b/reservations";
    let theirs = request("x", "uid-of-a", json!({"pods": "1"}));
    assert_eq!(world.call("stranger", "POST", elsewhere, &theirs).0, 201);
    let theirs = format!("{elsewhere}/uid-of-a");
    assert_eq!(world.call("stranger", "DELETE", &theirs, &json!({})).0, 204);
    assert!(world.admits(&pod("a")));
    assert_eq!(world.counted("pods"), "0+1");
    world.shows("ADDED", &pod("a"));
    assert_eq!(world.counted("pods"), "1+0");
    let (status, _) = world.call("stranger", "GET", &format!("{HELD}/uid-of-a"), &json!({}));
    assert_eq!(status, 403, "it has no role there");
}

/// An update is decided by the recorded object of its own namespace. Other namespaces may use the same uid.
#[test]
fn a_uid_that_is_used_in_another_namespace_changes_no_update_here() {
    let world = World::charging("deployments.apps", json!({"pods": "5", "requests.cpu": "1"}));
    let code = |review: &Value| {
        let (status, answer) = world.call("hook", "POST", "/admit", review);
        assert_eq!(status, 200, "{answer}");
        let response = &answer["response"];
        let denied = response["status"]["code"].as_u64();
        denied.filter(|_| response["allowed"] == false)
    };
    let (created, scaled) = (recorded("deployment-create"), recorded("deployment-scale"));
    let uid = created["request"]["object"]["metadata"]["uid"].as_str().unwrap();
    let elsewhere = "/v1/namespaces/team-b/reservations";
    for uid in [uid, "uid-of-a"] {
        let theirs = request(uid, uid, json!({"requests.cpu": "9"}));
        assert_eq!(world.call("stranger", "POST", elsewhere, &theirs).0, 201);
        let commit = format!("{elsewhere}/{uid}/commit");
        assert_eq!(world.call("stranger", "POST", &commit, &json!({})).0, 200);
    }
    let mut theirs = created.clone();
    theirs["request"]["object"]["metadata"]["namespace"] = json!("team-b");
    world.shows_in("ADDED", &theirs, 300);
    // How many replicas there are is known once the workload is observed here.
    assert!(world.admits(&created));
    assert_eq!(world.counted("pods"), "0+3");
    assert_eq!(code(&scaled), Some(409));
    world.shows_in("ADDED", &created, 212);
    assert_eq!(code(&scaled), None);
    assert_eq!(world.counted("pods"), "3+2");

    // A pod that is not observed yet needs room for all that grows.
    let grown = |cpu: &str| {
        let mut review = pod("a");
        review["request"]["operation"] = json!("UPDATE");
        review["request"]["subResource"] = json!("resize");
        review["request"]["oldObject"] = review["request"]["object"].clone();
        let spec = &mut review["request"]["object"]["spec"];
        spec["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}]);
        review
    };
    assert_eq!(code(&grown("600m")), Some(403), "500m are left");
}

#[test]
fn of_many_creations_of_one_name_one_holds_room() {
    let world = World::with(json!({"pods": "2"}));
    let reviews: Vec<_> = (0..16).map(|number| named("web", &format!("uid-{number}"))).collect();
    std::thread::scope(|scope| {
        for review in &reviews {
            scope.spawn(|| assert!(world.admits(review)));
        }
    });
    assert_eq!(world.counted("pods"), "0+1");
    // Whichever was stored, the rest is nobody's.
    world.shows("ADDED", &reviews[3]);
    assert_eq!(world.counted("pods"), "1+0");
    assert!(world.admits(&pod("b")));
    assert!(!world.admits(&pod("c")), "two are two");
}
