//! Reviews that get no decision, and decisions about too much.

use http::StatusCode;
use quota_core::decide::Policy;
use quotad::{admission::BODY_BYTES_MAX, writer::Watermark};
use serde_json::{Value, json};

use super::harness::{Answered, SPACIOUS, World, pod, recorded, rules};

#[tokio::test]
async fn what_is_no_review_is_refused() {
    let world = World::new();
    world.set_quota("q", &[("pods", "9")]).await;
    let post = async |media_type, body: String| world.post("/admit", media_type, body).await;
    let review = recorded("pod-create");

    let mut beta = review.clone();
    beta["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let answer = post("application/json", beta.to_string()).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(
        detail.contains("admission.k8s.io/v1beta1") && detail.contains("admissionReviewVersions"),
        "{detail}"
    );

    let answer = post("text/plain", review.to_string()).await;
    assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "pages of other origins");
    let with_charset = post("application/json; charset=utf-8", review.to_string()).await;
    assert!(with_charset.allowed());

    for (path, value) in
        [("/request", json!(null)), ("/request/uid", json!("")), ("/request/uid", json!(7))]
    {
        let mut bad = review.clone();
        *bad.pointer_mut(path).unwrap() = value;
        let answer = post("application/json", bad.to_string()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(answer.body["reason"], "Malformed", "{path}");
    }
    for text in ["", "{", "[]", "null", "\u{feff}{}"] {
        assert_eq!(
            post("application/json", text.to_owned()).await.status,
            StatusCode::BAD_REQUEST,
            "{text}"
        );
    }
}

#[tokio::test]
async fn what_is_not_understood_is_denied_where_anything_is_limited() {
    let world = World::new();
    world.set_quota("q", &[("pods", "9")]).await;
    let review = recorded("pod-create");
    let before = world.sequence();
    for (path, value) in [
        ("/request/operation", json!("PATCH")),
        ("/request/object", json!(null)),
        ("/request/object/spec/containers", json!(7)),
        ("/request/object/spec/containers/0/resources/requests/cpu", json!("1e999999x")),
        ("/request/object/metadata/uid", json!("a b")),
        ("/request/name", json!("a\nb")),
        ("/request/name", json!("x".repeat(254))),
        ("/request/resource/resource", json!("po ds")),
    ] {
        let mut bad = review.clone();
        *bad.pointer_mut(path).unwrap() = value;
        let answer = world.send(&bad).await;
        assert!(!answer.allowed(), "{path}");
        assert_eq!(answer.code(), 400, "{path}");
        assert_eq!(answer.body["response"]["uid"], review["request"]["uid"]);
        assert!(answer.message().contains("cannot be checked"), "{path}");
        assert_eq!(answer.annotation("reason"), Some("Malformed"), "{path}");
        // In a namespace without a quota the review needs no decision.
        bad["request"]["namespace"] = json!("elsewhere");
        assert!(world.send(&bad).await.allowed(), "{path}");
    }
    // The rest of it never came.
    let cut = review.to_string();
    let cut = cut.rsplit_once("\"userInfo\"").unwrap().0.to_owned();
    let answer = world.post("/admit", "application/json", cut).await;
    assert_eq!(answer.code(), 400, "{answer:?}");
    assert_eq!(world.sequence(), before);
}

fn extended(domain: &str) -> String {
    format!("{domain}.example.com/{}", "g".repeat(50))
}

/// A pod that asks for so many extended resources with names of this length.
fn with_extended(resources: usize, length: usize) -> Value {
    let digits = length - extended("").len();
    let named = |number| {
        let name = extended(&format!("{number:0>digits$}"));
        (name, json!("1"))
    };
    let amounts: serde_json::Map<_, _> = (0..resources).map(named).collect();
    let mut review = pod("large");
    let container = &mut review["request"]["object"]["spec"]["containers"][0];
    container["resources"] = json!({ "requests": amounts, "limits": amounts });
    review
}

#[tokio::test]
async fn a_large_pod_is_decided_or_denied_but_never_let_in_by_an_error() {
    let world = World::new();
    let large = with_extended(1060, 280);
    assert!(world.send(&large).await.allowed(), "nothing is limited");

    let resource = format!("requests.{}", extended(&format!("{:0>37}", 7)));
    world.set_quota("q", &[(&resource, "1"), ("pods", "9")]).await;
    let small = with_extended(1060, 100);
    assert!(world.send(&small).await.allowed());
    assert_eq!(world.counted("q", &resource), "0+1");
    let mut second = small.clone();
    second["request"]["object"]["metadata"]["uid"] = json!("second");
    second["request"]["name"] = json!("second");
    assert_eq!(world.send(&second).await.code(), 403);

    let before = world.sequence();
    let denied = world.send(&large).await;
    assert!(!denied.allowed());
    assert_eq!(denied.code(), 413);
    assert_eq!(denied.body["response"]["uid"], large["request"]["uid"]);
    assert_eq!(world.sequence(), before);
}

/// While a pod is measured, every other review waits. Names that come before those of another container moved all of
/// them: minutes.
#[tokio::test]
async fn a_pod_of_many_names_is_denied_in_little_time() {
    let world = World::new();
    world.set_quota("q", &[("pods", "9")]).await;
    let amounts = |letter: char| -> Value {
        let named = |number| (format!("{letter}.io/{number:05}"), json!("1"));
        (0..30_000).map(named).collect::<serde_json::Map<_, _>>().into()
    };
    let mut wide = pod("wide");
    wide["request"]["object"]["spec"]["containers"] = ['z', 'a']
        .map(|letter| json!({ "name": letter, "resources": { "requests": amounts(letter) } }))
        .to_vec()
        .into();
    let mut deep = pod("deep");
    let shared = json!({ "name": "", "resources": { "requests": { "a.io/1": "1" } } });
    deep["request"]["object"]["spec"]["containers"] = vec![shared; 5_000].into();
    for review in [wide, deep] {
        let denied = world.send(&review).await;
        assert!(!denied.allowed());
        assert_eq!(denied.code(), 413);
    }
    assert_eq!(world.counted("q", "pods"), "0+0");
}

/// All names of a namespace are in its sums, which each later decision reads.
#[tokio::test]
async fn pods_do_not_make_up_names_without_end() {
    let world = World::new();
    world.set_quota("q", &[("pods", "9")]).await;
    let wide = |name: &str, from: usize| {
        let amounts = (from..from + 2400).map(|number| (format!("a.io/{number:05}"), json!("1")));
        let amounts: Value = amounts.collect();
        let mut review = pod(name);
        review["request"]["object"]["spec"]["containers"] =
            json!([{ "name": "c", "resources": { "requests": amounts, "limits": amounts } }]);
        review
    };
    assert!(world.send(&wide("a", 0)).await.allowed());
    let denied = world.send(&wide("b", 2400)).await;
    assert_eq!(denied.status, StatusCode::OK);
    let message = denied.message();
    assert!(
        message.contains("limits.resources_per_namespace is 1024, and this would make 48"),
        "{message}"
    );
    assert!(world.send(&wide("c", 0)).await.allowed());
}

#[tokio::test]
async fn a_body_is_bounded_here_as_well() {
    let world = World::new();
    world.set_quota("q", &[("pods", "9")]).await;
    let mut large = recorded("pod-create");
    large["request"]["object"]["metadata"]["annotations"] = json!({ "a": "x".repeat(3 << 20) });
    large["request"]["operation"] = json!("UPDATE");
    large["request"]["oldObject"] = large["request"]["object"].clone();
    assert!(world.send(&large).await.allowed(), "two objects of 3 MiB");
    large["request"]["options"] = json!("x".repeat(BODY_BYTES_MAX));
    let denied = world.send(&large).await;
    assert_eq!(denied.code(), 413);
    assert_eq!(denied.body["response"]["uid"], large["request"]["uid"]);
    large["request"]["namespace"] = json!("elsewhere");
    assert!(world.send(&large).await.allowed(), "nothing is limited");
    large["request"]["uid"] = json!("x".repeat(2000));
    let refused = world.send(&large).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "no uid to answer");
}

fn assert_shed(answer: &Answered, reason: &str) {
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    assert_eq!(answer.body["reason"], reason);
    assert!(!answer.retry_after, "the API server would call again");
}

#[tokio::test]
async fn when_time_is_up_nothing_is_held() {
    let world = World::new();
    world.set_quota("q", &[("pods", "9")]).await;
    let before = world.sequence();
    let late = world.post("/admit?timeout=0s", "application/json", pod("a").to_string()).await;
    assert_shed(&late, "Timeout");
    assert_eq!(world.sequence(), before);
    world.gate.shut();
    let late = world.post("/admit?timeout=20ms", "application/json", pod("b").to_string()).await;
    assert_shed(&late, "Timeout");
    world.gate.open();
    let unknown = world.post("/admit?timeout=soon", "application/json", pod("c").to_string()).await;
    assert!(unknown.allowed(), "then our own time holds");
}

#[tokio::test]
async fn load_is_shed_when_the_queue_is_full() {
    let world = World::with(rules(), Watermark::without_sources(), (1, 1));
    world.set_quota("q", &[("pods", "9")]).await;
    let sequence = world.sequence();
    world.gate.shut();
    // One is being made durable, one waits.
    let reviews = [pod("a"), pod("b"), pod("c")];
    let [first, second, third] = reviews.each_ref().map(|review| world.send(review));
    tokio::pin!(first, second, third);
    assert!(futures::poll!(first.as_mut()).is_pending());
    while world.sequence() < sequence + 1 {
        tokio::task::yield_now().await;
    }
    let (shed, waiting) = match futures::future::select(second, third).await {
        futures::future::Either::Left((shed, waiting))
        | futures::future::Either::Right((shed, waiting)) => (shed, waiting),
    };
    assert_shed(&shed, "Overloaded");
    world.gate.open();
    for answer in [first.await, waiting.await] {
        assert!(answer.allowed());
    }
}

#[tokio::test]
async fn a_ledger_that_is_closed_decides_nothing() {
    let world = World::new();
    world.set_quota("q", &[("pods", "9")]).await;
    world.ledger.close();
    assert_shed(&world.send(&pod("a")).await, "Stopped");
    assert!(world.send(&recorded("pod-delete")).await.allowed());
}

#[tokio::test]
async fn too_many_pending_objects_are_denied_rather_than_let_in_by_a_failure_policy() {
    let policy = Policy { max_pending_per_namespace: 1, ..Policy::default() };
    let world = World::under(policy, rules(), Watermark::without_sources(), SPACIOUS);
    world.set_quota("q", &[("pods", "9")]).await;
    assert!(world.send(&pod("a")).await.allowed());
    let denied = world.send(&pod("b")).await;
    assert_eq!(denied.code(), 429);
    assert!(denied.message().contains("reservations.max_pending_per_namespace"));
    assert!(world.send(&pod("a")).await.allowed(), "what is held stays held");
}
