//! apply, in both ways, diff.

use serde_json::{Value, json};

use crate::{
    server::{Kubectl, Server},
    write::{MANIFEST, stored},
};

#[test]
fn apply_creates_changes_and_leaves() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let file = kubectl.file("q.yaml", MANIFEST);
        let more = kubectl.file("more.yaml", &MANIFEST.replace("pods: \"5\"", "limits.cpu: \"6\""));
        assert_eq!(kubectl.prints(&["apply", "-f", &file]), "resourcequota/q created\n");
        assert_eq!(kubectl.prints(&["apply", "-f", &file]), "resourcequota/q unchanged\n");
        let diff = kubectl.run(&["diff", "-f", &more]);
        assert!(
            diff.out.contains("-    pods: \"5\"") && diff.out.contains("+    limits.cpu: \"6\""),
            "{diff:?}"
        );
        let dry = kubectl.prints(&["apply", "-f", &more, "--dry-run=server"]);
        assert_eq!(dry, "resourcequota/q configured (server dry run)\n");
        assert_eq!(
            stored(&kubectl, "q")["spec"]["hard"],
            json!({"pods": "5", "requests.cpu": "2"})
        );
        assert_eq!(kubectl.prints(&["apply", "-f", &more]), "resourcequota/q configured\n");
        assert_eq!(
            stored(&kubectl, "q")["spec"]["hard"],
            json!({"limits.cpu": "6", "requests.cpu": "2"})
        );
        // A number is as good as a text.
        let number = kubectl.file("number.yaml", &MANIFEST.replace("pods: \"5\"", "pods: 7"));
        assert_eq!(kubectl.prints(&["apply", "-f", &number]), "resourcequota/q configured\n");
        assert_eq!(
            stored(&kubectl, "q")["spec"]["hard"],
            json!({"pods": "7", "requests.cpu": "2"})
        );
        kubectl.prints(&["delete", "-f", &file]);
    }
}

#[test]
fn server_side_apply_owns_fields() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let file = kubectl.file("q.yaml", MANIFEST);
        let apply = |file: &str, more: &[&str]| {
            kubectl.run(&[&["apply", "--server-side", "-f", file], more].concat())
        };
        let applied = apply(&file, &[]);
        assert_eq!(
            applied.out, "resourcequota/q serverside-applied\n",
            "1.{}: {}",
            kubectl.minor, applied.err
        );
        let managed = stored(&kubectl, "q")["metadata"]["managedFields"].clone();
        let fields = json!({
            "f:metadata": {"f:labels": {"f:team": {}}},
            "f:spec": {"f:hard": {"f:pods": {}, "f:requests.cpu": {}}, "f:scopes": {}},
        });
        assert_eq!((&managed[0]["operation"], &managed[0]["fieldsV1"]), (&json!("Apply"), &fields));

        let other = kubectl.file("other.yaml", &MANIFEST.replace("\"5\"", "\"6\""));
        let refused = apply(&other, &["--field-manager=other"]);
        let words = "Apply failed with 1 conflict: conflict with \"kubectl\": .spec.hard.pods";
        assert!(!refused.ok && refused.err.contains(words), "{refused:?}");
        let forced = apply(&other, &["--field-manager=other", "--force-conflicts"]);
        assert!(forced.ok, "{forced:?}");
        assert_eq!(stored(&kubectl, "q")["spec"]["hard"]["pods"], "6");

        // A field that its only manager gives up goes; one that others want stays.
        let less = kubectl.file("less.yaml", &MANIFEST.replace("pods: \"5\"", "limits.cpu: \"1\""));
        assert!(apply(&less, &["--field-manager=other"]).ok);
        let hard = stored(&kubectl, "q")["spec"]["hard"].clone();
        assert_eq!(hard, json!({"requests.cpu": "2", "limits.cpu": "1"}));
        kubectl.prints(&["delete", "-f", &file]);
    }
}

#[test]
fn server_side_apply_takes_over_from_client_side_apply() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let file = kubectl.file("q.yaml", MANIFEST);
        let more = kubectl.file("more.yaml", &MANIFEST.replace("pods: \"5\"", "pods: \"6\""));
        kubectl.prints(&["apply", "-f", &file]);
        let applied = kubectl.prints(&["apply", "--server-side", "-f", &more]);
        assert_eq!(applied, "resourcequota/q serverside-applied\n");
        let quota = stored(&kubectl, "q");
        assert_eq!(quota["spec"]["hard"], json!({"pods": "6", "requests.cpu": "2"}));
        assert_eq!(quota["metadata"]["labels"], json!({"team": "a"}));
        let last =
            &quota["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
        let last: Value = serde_json::from_str(last.as_str().unwrap()).unwrap();
        assert_eq!(last["spec"]["hard"]["pods"], "6");
        // And back again.
        assert_eq!(kubectl.prints(&["apply", "-f", &file]), "resourcequota/q configured\n");
        assert_eq!(stored(&kubectl, "q")["spec"]["hard"]["pods"], "5");
        kubectl.prints(&["delete", "-f", &file]);
    }
}

#[test]
fn what_is_applied_to_an_object_of_the_cluster_may_change_nothing() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let file = kubectl.file("q.yaml", MANIFEST);
        kubectl.prints(&["create", "-f", &file]);
        let uid = stored(&kubectl, "q")["metadata"]["uid"].clone();
        server.adopt("wire", "q", uid.as_str().unwrap());
        server.adopt_group("g");
        let group = kubectl.file(
            "g.yaml",
            "apiVersion: quota.openshift.io/v1\nkind: ClusterResourceQuota\nmetadata: {name: g, labels: {a: b}}\n\
             spec:\n  selector: {labels: {matchLabels: {kubernetes.io/metadata.name: wire}}}\n  quota: {hard: {}}\n",
        );
        for file in [&file, &group] {
            kubectl.prints(&["apply", "-f", file]);
            kubectl.prints(&["apply", "--server-side", "-f", file]);
            kubectl.prints(&["replace", "-f", file]);
        }
        let more = kubectl.file("more.yaml", &MANIFEST.replace("pods: \"5\"", "pods: \"6\""));
        let refused = kubectl.fails(&["apply", "-f", &more]);
        assert!(refused.contains("kubectl -n wire edit resourcequota q"), "{refused}");
        server.release("wire", uid.as_str().unwrap());
        kubectl.prints(&["delete", "-f", &file]);
    }
}
