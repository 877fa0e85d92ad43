//! Asking publishers for a relist.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::world::World;
use parking_lot::Mutex;
use quota_semantics::Name;
use quotad::intake::{RequestedRelist, Sources};
use serde_json::{Value, json};

#[tokio::test]
async fn publishers_are_asked_to_list_what_is_named() {
    let world = World::new();
    let ask = |body: Value| {
        let world = &world;
        async move { world.post("/v1/relist", &body).await }
    };
    let none = ask(json!({})).await;
    assert_eq!((none.status, &none.body["reason"]), (404, &json!("NotFound")));
    for wrong in [json!({"resources": ["Pods"]}), json!({"resources": vec!["a"; 257]})] {
        let refused = ask(wrong).await;
        assert_eq!(refused.status, 422, "{:?}", refused.body);
    }
    assert_eq!(ask(json!({"resource": "pods"})).await.status, 400);

    let clusters = Arc::new(Mutex::new(vec!["prod".into()]));
    let publishers = Publishers { clusters: clusters.clone(), requested: <_>::default() };
    let publishers = Arc::new(publishers);
    let sources = publishers.clone();
    let world = World::with(|parts| parts.sources = sources);
    let reply = world.post("/v1/relist", &json!({"resources": ["pods", "pods"]})).await;
    assert_eq!(reply.status, 202, "{:?}", reply.body);
    assert_eq!(reply.body, json!({"clusters": ["prod"], "resources": ["pods"], "waitSeconds": 2}));
    assert_eq!(*publishers.requested.lock(), [["pods".into()].into()]);
    clusters.lock().clear();
    let unknown = world.post("/v1/relist", &json!({})).await;
    assert_eq!((unknown.status, &unknown.body["reason"]), (503, &json!("NotReady")));
}

/// Publishers that take note of requests.
struct Publishers {
    clusters: Arc<Mutex<Vec<Name>>>,
    requested: Mutex<Vec<BTreeSet<Name>>>,
}

impl Sources for Publishers {
    fn are_caught_up(&self) -> bool {
        true
    }
    fn lag(&self) -> bool {
        false
    }
    fn request_relist(&self, kinds: BTreeSet<Name>) -> Option<RequestedRelist> {
        self.requested.lock().push(kinds);
        Some(RequestedRelist {
            clusters: self.clusters.lock().clone(),
            wait: Duration::from_millis(1500),
        })
    }
}
