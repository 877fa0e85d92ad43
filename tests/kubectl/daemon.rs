//! The daemon itself: what kubectl writes is there for everybody, and after a crash.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{server::Kubectl, support::quotad::Quotad, write::stored};

#[test]
fn quotas_outlive_the_daemon() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    for kubectl in Kubectl::all_at(&daemon.api) {
        let name = format!("q{}", kubectl.minor);
        kubectl.prints(&["create", "quota", &name, "-n", "wire", "--hard=pods=10"]);
        kubectl.prints(&["label", "quota", &name, "-n", "wire", "team=a"]);
        let quota = daemon.get(&format!("/v1/namespaces/wire/quotas/{name}"));
        assert_eq!(quota["metadata"]["labels"], json!({"team": "a"}));
        assert_eq!(quota["spec"]["hard"], json!({"pods": "10"}));
        assert_eq!(
            quota["metadata"]["uid"],
            stored(&kubectl, &name)["metadata"]["uid"]
        );
    }
    let before = daemon.get("/api/v1/resourcequotas");
    daemon.kill();

    let daemon = Quotad::start(directory.path(), &[]);
    let after = daemon.get("/api/v1/resourcequotas");
    let specs = |list: &Value| -> Vec<Value> {
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| {
                json!([
                    item["metadata"]["uid"],
                    item["metadata"]["managedFields"],
                    item["spec"]
                ])
            })
            .collect()
    };
    assert_eq!(specs(&before), specs(&after));
    for kubectl in Kubectl::all_at(&daemon.api) {
        let name = format!("q{}", kubectl.minor);
        let patch = r#"-p={"spec":{"hard":{"pods":"11"}}}"#;
        kubectl.prints(&["patch", "quota", &name, "-n", "wire", patch]);
        assert_eq!(stored(&kubectl, &name)["spec"]["hard"]["pods"], "11");
    }
    assert!(daemon.stop().success());
}
