//! create, edit, patch, label, annotate, replace, delete.

use serde_json::{Value, json};

use crate::server::{Kubectl, Server};

pub(crate) const MANIFEST: &str = r#"
apiVersion: v1
kind: ResourceQuota
metadata:
  name: q
  namespace: wire
  labels:
    team: a
spec:
  hard:
    pods: "5"
    requests.cpu: "2"
  scopes:
  - NotTerminating
"#;

/// A quota as it is stored.
pub(crate) fn stored(kubectl: &Kubectl, name: &str) -> Value {
    let mut arguments = vec!["get", "quota", name, "-n", "wire", "-o", "json"];
    if kubectl.minor >= 21 {
        arguments.push("--show-managed-fields");
    }
    serde_json::from_str(&kubectl.prints(&arguments)).unwrap()
}

fn hard(kubectl: &Kubectl, name: &str) -> Value {
    stored(kubectl, name)["spec"]["hard"].clone()
}

#[test]
fn create_quota_sends_protobuf() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let limits = "--hard=pods=10,requests.memory=8Gi,requests.example.com/gpu=2";
        let create = ["create", "quota", "rq", "-n", "wire", limits];
        let dry = kubectl.prints(&[&create[..], &["--dry-run=server", "-o", "name"]].concat());
        assert_eq!(dry, "resourcequota/rq\n");
        assert_eq!(kubectl.prints(&create), "resourcequota/rq created\n");
        let scoped =
            ["create", "quota", "scoped", "-n", "wire", "--hard=pods=1", "--scopes=BestEffort"];
        assert_eq!(kubectl.prints(&scoped), "resourcequota/scoped created\n");
        let expected =
            json!({"pods": "10", "requests.memory": "8Gi", "requests.example.com/gpu": "2"});
        let created = stored(&kubectl, "rq");
        assert_eq!(created["spec"], json!({"hard": expected}));
        let managed = &created["metadata"]["managedFields"];
        assert_eq!(managed[0]["manager"], "kubectl-create");
        let fields = json!({".": {}, "f:pods": {}, "f:requests.memory": {}, "f:requests.example.com/gpu": {}});
        assert_eq!(managed[0]["fieldsV1"], json!({"f:spec": {"f:hard": fields}}));
        assert_eq!(stored(&kubectl, "scoped")["spec"]["scopes"], json!(["BestEffort"]));

        let again = kubectl.fails(&create);
        assert!(again.contains("resourcequotas \"rq\" already exists"), "{again}");
        let bad = kubectl.fails(&["create", "quota", "bad", "-n", "wire", "--hard=pods=-1"]);
        let why = "ResourceQuota \"bad\" is invalid: spec.hard[pods]: Invalid value: \"-1\": \
                   must be greater than or equal to 0";
        assert!(bad.contains(why), "{bad}");
        kubectl.prints(&["delete", "quota", "-n", "wire", "--all"]);
    }
}

#[test]
fn create_from_a_file_is_validated() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let file = kubectl.file("q.yaml", MANIFEST);
        assert_eq!(kubectl.prints(&["create", "-f", &file]), "resourcequota/q created\n");
        assert_eq!(hard(&kubectl, "q"), json!({"pods": "5", "requests.cpu": "2"}));
        let again = kubectl.fails(&["create", "-f", &file]);
        assert!(again.contains("Error from server (AlreadyExists)"), "{again}");
        let odd = kubectl
            .file("odd.yaml", &MANIFEST.replace("hard:", "hrd:").replace("name: q", "name: odd"));
        let refused = kubectl.fails(&["create", "-f", &odd]);
        let words =
            if kubectl.minor < 25 { "unknown field \"hrd\"" } else { "unknown field \"spec.hrd\"" };
        assert!(refused.contains(words), "{refused}");
        let created = kubectl.run(&["create", "-f", &odd, "--validate=false"]);
        assert!(created.ok, "{created:?}");
        if kubectl.minor >= 25 {
            let created = kubectl.run(&["apply", "-f", &odd, "--validate=warn"]);
            assert!(created.err.contains("Warning: unknown field \"spec.hrd\""), "{created:?}");
        }
        let above =
            MANIFEST.replace("name: q", "name: above").replace("pods: \"5\"", "limits.cpu: \"1\"");
        let above = kubectl.file("above.yaml", &above);
        let warned = kubectl.run(&["create", "-f", &above]);
        assert!(
            warned.ok && warned.err.contains("requests.cpu (2) should be less than limits.cpu (1)"),
            "{warned:?}"
        );
        kubectl.prints(&["delete", "quota", "-n", "wire", "--all"]);
    }
}

#[test]
fn patches_of_three_kinds() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let file = kubectl.file("q.yaml", MANIFEST);
        kubectl.prints(&["create", "-f", &file]);
        let patch = |more: &[&str]| {
            kubectl.prints(&[&["patch", "quota", "q", "-n", "wire"], more].concat())
        };
        for (more, pods) in [
            (["--type=strategic", r#"-p={"spec":{"hard":{"pods":"12"}}}"#], "12"),
            (["--type=merge", r#"-p={"spec":{"hard":{"pods":"13"}}}"#], "13"),
            (
                ["--type=json", r#"-p=[{"op":"replace","path":"/spec/hard/pods","value":"14"}]"#],
                "14",
            ),
        ] {
            assert_eq!(patch(&more), "resourcequota/q patched\n");
            assert_eq!(hard(&kubectl, "q"), json!({"pods": pods, "requests.cpu": "2"}));
            assert_eq!(patch(&more), "resourcequota/q patched (no change)\n");
        }
        assert_eq!(
            patch(&["--type=merge", r#"-p={"spec":{"hard":{"pods":null}}}"#]),
            "resourcequota/q patched\n"
        );
        assert_eq!(hard(&kubectl, "q"), json!({"requests.cpu": "2"}));
        let refuse =
            |more: &[&str]| kubectl.fails(&[&["patch", "quota", "q", "-n", "wire"], more].concat());
        let said = refuse(&["--type=merge", r#"-p={"spec":{"scopes":["BestEffort"]}}"#]);
        assert!(said.contains("field is immutable"), "{said}");
        let said =
            refuse(&["--type=json", r#"-p=[{"op":"test","path":"/spec/hard/pods","value":"1"}]"#]);
        assert!(said.contains("The request is invalid: "), "{said}");
        let said = refuse(&["--type=merge", r#"-p={"metadata":{"resourceVersion":"1"}}"#]);
        assert!(said.contains("Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified"), "{said}");
        kubectl.prints(&["delete", "quota", "q", "-n", "wire"]);
    }
}

#[test]
fn labels_and_annotations() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let file = kubectl.file("q.yaml", MANIFEST);
        kubectl.prints(&["create", "-f", &file]);
        assert_eq!(
            kubectl.prints(&["label", "quota", "q", "-n", "wire", "a=b"]),
            "resourcequota/q labeled\n"
        );
        // 1.20 says "annotate".
        let said = kubectl.prints(&["annotate", "quota", "q", "-n", "wire", "c=d e"]);
        assert!(said.starts_with("resourcequota/q annotate"), "{said}");
        let metadata = stored(&kubectl, "q")["metadata"].clone();
        assert_eq!(metadata["labels"], json!({"team": "a", "a": "b"}));
        assert_eq!(metadata["annotations"], json!({"c": "d e"}));
        let found = kubectl.prints(&[
            "get",
            "quota",
            "-n",
            "wire",
            "-l",
            "a=b,team in (a,b)",
            "-o",
            "name",
        ]);
        assert_eq!(found, "resourcequota/q\n");
        assert_eq!(kubectl.prints(&["get", "quota", "-A", "-l", "!a", "-o", "name"]), "");
        let by_name = ["get", "quota", "-A", "--field-selector", "metadata.name=q", "-o", "name"];
        assert_eq!(kubectl.prints(&by_name), "resourcequota/q\n");
        kubectl.prints(&["label", "quota", "q", "-n", "wire", "a-", "team-"]);
        assert_eq!(stored(&kubectl, "q")["metadata"].get("labels"), None);
        let bad = kubectl.fails(&[
            "label",
            "quota",
            "q",
            "-n",
            "wire",
            "--overwrite",
            "a=b",
            "--resource-version=999999",
        ]);
        assert!(bad.contains("the object has been modified"), "{bad}");
        kubectl.prints(&["delete", "quota", "q", "-n", "wire"]);
    }
}

#[test]
fn edit_changes_what_the_editor_changed() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let file = kubectl.file("q.yaml", MANIFEST);
        kubectl.prints(&["create", "-f", &file]);
        let edit = |script: &str| {
            let editor = format!("sed -i {script}");
            let edited = kubectl
                .command(&["edit", "quota", "q", "-n", "wire"])
                .env("KUBE_EDITOR", editor)
                .output();
            crate::server::Said::from(edited.unwrap())
        };
        let edited = edit("0,/pods:.*/s//pods:\\ \\\"9\\\"/");
        assert!(
            edited.ok && edited.out.contains("resourcequota/q edited"),
            "1.{}: {edited:?}",
            kubectl.minor
        );
        assert_eq!(hard(&kubectl, "q"), json!({"pods": "9", "requests.cpu": "2"}));
        let same = edit("s/x/x/");
        assert!(same.err.contains("Edit cancelled, no changes made"), "{same:?}");
        kubectl.prints(&["delete", "quota", "q", "-n", "wire"]);
    }
}

#[test]
fn replace_is_optimistic() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let file = kubectl.file("q.yaml", MANIFEST);
        let missing = kubectl.fails(&["replace", "-f", &file]);
        assert!(missing.contains("(NotFound)"), "{missing}");
        kubectl.prints(&["create", "-f", &file]);
        let before = kubectl.prints(&["get", "quota", "q", "-n", "wire", "-o", "yaml"]);
        let more = kubectl.file("more.yaml", &MANIFEST.replace("\"5\"", "\"6\""));
        assert_eq!(kubectl.prints(&["replace", "-f", &more]), "resourcequota/q replaced\n");
        assert_eq!(hard(&kubectl, "q")["pods"], "6");
        let stale = kubectl.file("stale.yaml", &before.replace("\"5\"", "\"7\""));
        let refused = kubectl.fails(&["replace", "-f", &stale]);
        let words = "Error from server (Conflict): error when replacing";
        assert!(
            refused.contains(words) && refused.contains("the object has been modified"),
            "{refused}"
        );
        // That figures have changed since does not stand in the way of a write.
        let current = kubectl.prints(&["get", "quota", "q", "-n", "wire", "-o", "yaml"]);
        server.observe("wire", "p", &[("pods", "1")]);
        let current = kubectl.file("current.yaml", &current.replace("\"6\"", "\"8\""));
        assert_eq!(kubectl.prints(&["replace", "-f", &current]), "resourcequota/q replaced\n");
        assert_eq!(hard(&kubectl, "q")["pods"], "8");
        server.delete("wire", "p");
        kubectl.prints(&["delete", "quota", "q", "-n", "wire"]);
    }
}

#[test]
fn delete_one_or_all() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        for name in ["a", "b", "c"] {
            kubectl.prints(&["create", "quota", name, "-n", "wire", "--hard=pods=1"]);
        }
        let dry = kubectl.prints(&["delete", "quota", "a", "-n", "wire", "--dry-run=server"]);
        assert!(dry.contains("deleted") && dry.contains("server dry run"), "{dry}");
        let gone = kubectl.prints(&["delete", "quota", "a", "-n", "wire"]);
        assert!(gone.starts_with("resourcequota \"a\" deleted"), "{gone}");
        let missing = kubectl.fails(&["delete", "quota", "a", "-n", "wire"]);
        assert_eq!(missing, "Error from server (NotFound): resourcequotas \"a\" not found\n");
        let all = kubectl.prints(&["delete", "quota", "-n", "wire", "--all"]);
        assert_eq!(all.lines().count(), 2);
        assert_eq!(kubectl.prints(&["get", "quota", "-n", "wire"]), "");
    }
}
