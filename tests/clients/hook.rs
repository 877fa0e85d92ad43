//! The example of an admission hook, with the real daemon behind it.

use std::time::Duration;

use quota_client::http::{Client, Options, Retry};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::{
    admission_hook,
    support::quotad::{Quotad, REQUEST, agent},
};

/// A review of a request for a training job.
fn review(operation: &str, uid: &str, gpus: u64, dry_run: bool) -> Value {
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "TrainingJob",
        "metadata": {"name": uid, "namespace": "team-a", "uid": uid},
        "spec": {"workers": 2, "gpusPerWorker": gpus},
    });
    let (new, old) = match operation {
        "DELETE" => (Value::Null, object),
        _ => (object, Value::Null),
    };
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "r-1", "operation": operation, "namespace": "team-a", "dryRun": dry_run,
                    "object": new, "oldObject": old},
    })
}

/// Serves the hook on a free port; gives its URL. It ends with the test's process.
fn serve(client: Client) -> String {
    let (sender, bound) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            admission_hook::serve(listener, client).await.unwrap();
        });
    });
    format!("http://{}/admit", bound.recv().unwrap())
}

#[test]
fn the_example_hook_admits_what_there_is_room_for() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let options =
        Options { retry: Retry::NEVER, timeout: Duration::from_secs(20), ..Options::default() };
    let client = Client::new(&daemon.api, options).unwrap();
    let mut manifest = quota_semantics::quota::Manifest::default();
    let hard = [("requests.nvidia.com/gpu".into(), "8".parse().unwrap())];
    manifest.spec.hard = hard.into_iter().collect();
    client.set_quota("team-a", "gpus", &manifest).unwrap();

    let hook = serve(client.clone());
    let ask = |review: &Value| -> (u16, Value) {
        let mut answer = agent(REQUEST).post(&hook).send_json(review).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        let body = serde_json::from_str(&text).unwrap_or_default();
        (answer.status().as_u16(), body)
    };
    let used = || {
        let usage = client.usage("team-a", quota_client::http::When::Now);
        let limits = usage.unwrap().quotas.remove(0).resources;
        (limits[0].used.clone().unwrap_or_default().to_string(), limits[0].reserved.to_string())
    };
    let of = |used: &str, reserved: &str| (used.to_owned(), reserved.to_owned());

    let (status, admitted) = ask(&review("CREATE", "job-1", 3, false));
    assert_eq!(status, 200);
    assert_eq!(admitted["response"]["allowed"], true, "{admitted}");
    assert_eq!(admitted["response"]["uid"], "r-1");
    assert_eq!(used(), of("0", "6"));
    // An API server asks again when it lost the answer: nothing more is held.
    assert_eq!(ask(&review("CREATE", "job-1", 3, false)).1["response"]["allowed"], true);
    assert_eq!(used(), of("0", "6"));

    for dry_run in [false, true] {
        let (_, denied) = ask(&review("CREATE", "job-2", 2, dry_run));
        let response = &denied["response"];
        assert_eq!(response["allowed"], false, "{denied}");
        assert_eq!(response["status"]["code"], 403);
        let message = response["status"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("exceeded quota: gpus, requested: requests.nvidia.com/gpu=4"),
            "{message}"
        );
    }
    let (_, dry) = ask(&review("CREATE", "job-3", 1, true));
    assert_eq!(dry["response"]["allowed"], true, "{dry}");
    assert_eq!(used(), of("0", "6"));
    let (_, odd) =
        ask(&json!({"request": {"uid": "r", "operation": "CREATE", "namespace": "team-a",
        "object": {"metadata": {"uid": "x"}, "spec": {"workers": "many"}}}}));
    assert_eq!(odd["response"]["status"]["code"], 422, "{odd}");

    // A reviewed deletion may still fail, so it frees nothing: neither the reserved nor the used amount.
    let delete = || {
        let deleted = ask(&review("DELETE", "job-1", 3, false));
        assert_eq!(deleted.1["response"]["allowed"], true, "{deleted:?}");
    };
    delete();
    assert_eq!(used(), of("0", "6"));
    // The controller of the objects says what it sees: that one is stored, that it is gone.
    client.commit("team-a", "job-1", None).unwrap();
    assert_eq!(used(), of("6", "0"));
    delete();
    assert_eq!(used(), of("6", "0"));
    client.release("team-a", "job-1").unwrap();
    assert_eq!(used(), of("0", "0"));

    // Without a decision the API server does what `failurePolicy` says.
    daemon.kill();
    assert_eq!(ask(&review("CREATE", "job-4", 1, false)).0, 503);
}
