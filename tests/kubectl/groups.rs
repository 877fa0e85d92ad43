//! ClusterResourceQuotas: discovery, create, apply, get, describe, patch, watch, delete; and what is applied to a namespace.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
    time::Instant,
};

use quotad::auth::{Principal, Role};
use serde_json::{Value, json};

use crate::server::{Kubectl, Server};

const MANIFEST: &str = r#"
apiVersion: quota.openshift.io/v1
kind: ClusterResourceQuota
metadata:
  name: g
  labels:
    team: red
  annotations:
    quota-ledger.io/soft: '{"pods": "4"}'
spec:
  selector:
    labels:
      matchExpressions:
      - {key: kubernetes.io/metadata.name, operator: In, values: [a, b]}
  quota:
    hard:
      pods: "5"
"#;

/// What kubectl says of a command that reads a manifest.
fn with_input(kubectl: &Kubectl, arguments: &[&str], input: &str) -> (bool, String) {
    let mut child = kubectl
        .command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn applied(kubectl: &Kubectl, manifest: &str, more: &[&str]) -> String {
    let (ok, said) = with_input(kubectl, &[&["apply", "-f", "-"], more].concat(), manifest);
    assert!(ok, "{said}");
    said
}

fn stored(kubectl: &Kubectl) -> Value {
    let json = kubectl.prints(&["get", "clusterresourcequota", "g", "-o", "json"]);
    serde_json::from_str(&json).unwrap()
}

#[test]
fn groups_are_found_applied_shown_and_deleted() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let kinds =
            kubectl.prints(&["api-resources", "--api-group=quota.openshift.io", "-o", "name"]);
        assert!(kinds.contains("clusterresourcequotas.quota.openshift.io"), "{kinds}");
        assert!(kinds.contains("appliedclusterresourcequotas.quota.openshift.io"), "{kinds}");

        let dry = applied(&kubectl, MANIFEST, &["--dry-run=server"]);
        assert!(dry.contains("created (server dry run)"), "{dry}");
        let first = applied(&kubectl, MANIFEST, &[]);
        assert_eq!(first, "clusterresourcequota.quota.openshift.io/g created\n");
        let again = applied(&kubectl, MANIFEST, &[]);
        assert_eq!(again, "clusterresourcequota.quota.openshift.io/g unchanged\n");

        server.observe("a", "x", &[("pods", "2")]);
        server.observe("c", "elsewhere", &[("pods", "2")]);
        server.reserve("b", "y", &[("pods", "1")]);
        let group = stored(&kubectl);
        let total = &group["status"]["total"];
        assert_eq!(
            *total,
            json!({"hard": {"pods": "5"}, "used": {"pods": "2"}, "reserved": {"pods": "1"}})
        );
        let member = &group["status"]["namespaces"][0];
        assert_eq!(member["namespace"], "a");
        assert_eq!(
            member["status"],
            json!({"hard": {"pods": "5"}, "used": {"pods": "2"}, "reserved": {"pods": "0"}})
        );
        assert_eq!(group["status"]["namespaces"].as_array().unwrap().len(), 2);

        let table = kubectl.prints(&["get", "clusterquota"]);
        assert!(table.contains("NAMESPACES") && table.contains("pods: 2/5"), "{table}");
        let described = kubectl.prints(&["describe", "clusterresourcequota", "g"]);
        assert!(
            described.contains("Kind:") && described.contains("Match Expressions"),
            "{described}"
        );
        let explained = kubectl.prints(&["explain", "clusterresourcequota.spec.selector"]);
        assert!(explained.contains("annotations"), "{explained}");

        let patch = r#"{"spec":{"quota":{"hard":{"pods":"6"}}}}"#;
        kubectl.prints(&["patch", "clusterresourcequota", "g", "--type=merge", "-p", patch]);
        assert_eq!(stored(&kubectl)["spec"]["quota"]["hard"]["pods"], "6");
        kubectl.prints(&[
            "annotate",
            "clusterresourcequota",
            "g",
            "quota-ledger.io/enforcement=warn",
        ]);
        kubectl.prints(&["label", "clusterresourcequota", "g", "tier=1"]);
        let listed = kubectl.prints(&["get", "clusterresourcequota", "-l", "tier=1", "-o", "name"]);
        assert_eq!(listed, "clusterresourcequota.quota.openshift.io/g\n");
        let server_side = applied(&kubectl, MANIFEST, &["--server-side", "--force-conflicts"]);
        assert!(server_side.contains("serverside-applied"), "{server_side}");
        assert_eq!(stored(&kubectl)["spec"]["quota"]["hard"]["pods"], "5");

        let of_a = kubectl.prints(&["get", "appliedclusterresourcequota", "-n", "a", "-o", "json"]);
        let of_a: Value = serde_json::from_str(&of_a).unwrap();
        assert_eq!(of_a["items"][0]["kind"], "AppliedClusterResourceQuota");
        assert_eq!(of_a["items"][0]["metadata"]["namespace"], "a");
        assert_eq!(of_a["items"][0]["status"]["total"]["used"]["pods"], "2");
        let table = kubectl.prints(&["get", "appliedclusterresourcequota", "g", "-n", "b"]);
        assert!(table.contains("pods: 2/5"), "{table}");
        let of_c = kubectl.prints(&["get", "appliedclusterresourcequota", "-n", "c", "-o", "name"]);
        assert_eq!(of_c, "");

        let gone = kubectl.prints(&["delete", "clusterresourcequota", "g"]);
        assert!(gone.contains("\"g\" deleted"), "{gone}");
        let all = kubectl.prints(&["get", "clusterresourcequota", "-o", "name"]);
        assert_eq!(all, "");
        for (namespace, pod) in [("a", "x"), ("c", "elsewhere"), ("b", "y")] {
            server.delete(namespace, pod);
        }
    }
}

#[test]
fn of_the_members_of_a_group_only_those_that_one_may_read_are_counted() {
    let server = Server::start();
    for namespace in ["a", "b", "c"] {
        server.observe(namespace, namespace, &[("pods", "1")]);
    }
    let group = json!({
        "metadata": {"name": "g"},
        "spec": {
            "selector": {"labels": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "Exists"},
            ]}},
            "quota": {"hard": {"pods": "5"}},
        },
    });
    let groups = "/apis/quota.openshift.io/v1/clusterresourcequotas";
    let (status, _, _) = server.request("POST", groups, &[], group.to_string().as_bytes());
    assert_eq!(status, 201);
    let namespaces = ["a", "b"].map(|name| name.parse().unwrap());
    let reader = Principal::new("reader", &[Role::Read], &namespaces);
    let applied = "/apis/quota.openshift.io/v1/namespaces/a/appliedclusterresourcequotas";
    let table = server.get_as(&reader, applied, "application/json;as=Table;g=meta.k8s.io;v=v1");
    let columns = table["columnDefinitions"].as_array().unwrap();
    let at = columns.iter().position(|column| column["name"] == "Namespaces");
    assert_eq!(table["rows"][0]["cells"][at.unwrap()], "2", "{table}");
    let list = server.get_as(&reader, applied, "application/json");
    let status = &list["items"][0]["status"];
    assert_eq!(status["total"]["used"]["pods"], "3");
    assert_eq!(status["namespaces"].as_array().unwrap().len(), 2);
    assert_eq!(status["namespacesOmitted"], Value::Null);
}

#[test]
fn shapes_that_cannot_stand_are_refused() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let all = MANIFEST.replace("labels:\n      matchExpressions:\n      - {key: kubernetes.io/metadata.name, operator: In, values: [a, b]}", "annotations: {}");
        for (manifest, field) in [
            (all.as_str(), "spec.selector: Required value: must restrict the selected projects"),
            (&MANIFEST.replace("\"5\"", "\"-5\""), "spec.quota.hard[pods]: Invalid value"),
            (
                &MANIFEST.replace("/soft: '{\"pods\": \"4\"}'", "/parent: g"),
                "a group cannot be part of itself",
            ),
            (
                &MANIFEST.replace("/soft", "/sofft"),
                "metadata.annotations[quota-ledger.io/sofft]: Forbidden",
            ),
        ] {
            for dry in [&["apply", "-f", "-", "--dry-run=server"][..], &["apply", "-f", "-"]] {
                let (ok, said) = with_input(&kubectl, dry, manifest);
                assert!(!ok && said.contains(field), "{field}: {said}");
                assert!(said.contains("ClusterResourceQuota \"g\" is invalid"), "{said}");
            }
        }
        let strict = MANIFEST.replace("  quota:", "  qouta: {}\n  quota:");
        let (ok, said) = with_input(&kubectl, &["apply", "-f", "-", "--validate=true"], &strict);
        assert!(!ok && said.contains("qouta"), "{said}");
        let missing = kubectl.fails(&["get", "clusterresourcequota", "nosuch"]);
        assert!(
            missing.contains("clusterresourcequotas.quota.openshift.io \"nosuch\" not found"),
            "{missing}"
        );
    }
}

#[test]
fn a_watch_tells_of_a_group_at_most_once_a_second() {
    let server = Server::start();
    let kubectls = Kubectl::all(&server);
    let kubectl = kubectls.last().unwrap();
    applied(kubectl, MANIFEST, &[]);
    let mut child = kubectl
        .command(&["get", "clusterresourcequota", "-w"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("NAMESPACES"));
    assert!(lines.next().unwrap().contains("pods: 0/5"));
    let began = Instant::now();
    for number in 0..100 {
        server.observe("a", &format!("p{number}"), &[("pods", "1")]);
    }
    // What has nothing to do with the group says nothing of it.
    server.observe("c", "other", &[("pods", "1")]);
    let mut count = 0;
    loop {
        count += 1;
        if lines.next().unwrap().contains("pods: 100/5") {
            break;
        }
    }
    let most = 2 + usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!(count <= most, "{count} events in {:?}", began.elapsed());
    kubectl.prints(&["delete", "clusterresourcequota", "g"]);
    assert!(lines.next().unwrap().starts_with("g "));
    child.kill().unwrap();
    child.wait().unwrap();
}
