//! get, describe, version, api-resources, explain.

use serde_json::{Value, json};

use crate::server::{Kubectl, Server};

const HARD: &str = "--hard=pods=10,requests.cpu=4,requests.memory=8Gi,limits.cpu=8";

/// A server with one quota, of which something is used and something is reserved.
fn served() -> Server {
    let server = Server::start();
    let kubectl = &Kubectl::all(&server)[0];
    let created = kubectl.prints(&["create", "quota", "rq", "-n", "wire", HARD]);
    assert_eq!(created, "resourcequota/rq created\n");
    server.observe("wire", "p1", &[("pods", "1"), ("requests.cpu", "500m"), ("limits.cpu", "1")]);
    server.reserve("wire", "p2", &[("pods", "1"), ("requests.cpu", "250m")]);
    server
}

/// A table as its cells; columns are two or more blanks apart.
fn cells(table: &str) -> Vec<Vec<&str>> {
    table
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect()
}

#[test]
fn get_shows_what_is_used_limited_and_reserved() {
    let server = served();
    for kubectl in Kubectl::all(&server) {
        let requests = "pods: 1/10, requests.cpu: 500m/4, requests.memory: 0/8Gi";
        let (limits, reserved) = ("limits.cpu: 1/8", "pods: 1, requests.cpu: 250m");
        for more in [["-o", "wide"].as_slice(), &["rq"], &[]] {
            let table = kubectl.prints(&[&["get", "quota", "-n", "wire"], more].concat());
            let table = cells(&table);
            assert_eq!(table[0], ["NAME", "REQUEST", "LIMIT", "RESERVED", "AGE"]);
            assert_eq!(table[1][..4], ["rq", requests, limits, reserved]);
            assert!(table[1][4].ends_with(['s', 'm']), "{table:?}");
            assert_eq!(table.len(), 2);
        }
        let table = kubectl.prints(&["get", "quota", "-A"]);
        let table = cells(&table);
        assert_eq!(table[0][..2], ["NAMESPACE", "NAME"]);
        assert_eq!(table[1][..5], ["wire", "rq", requests, limits, reserved]);
        assert_eq!(
            kubectl.prints(&["get", "quota", "-n", "wire", "-o", "name"]),
            "resourcequota/rq\n"
        );
        assert_eq!(kubectl.prints(&["get", "resourcequotas", "-n", "none"]), "");
        let missing = kubectl.fails(&["get", "quota", "nosuch", "-n", "wire"]);
        assert_eq!(missing, "Error from server (NotFound): resourcequotas \"nosuch\" not found\n");
    }
}

#[test]
fn cluster_info_says_where_the_api_is() {
    let server = served();
    for kubectl in Kubectl::all(&server) {
        let info = kubectl.prints(&["cluster-info"]);
        assert!(info.contains(" is running at "), "{info}");
        assert!(info.contains(&server.address.to_string()), "{info}");
        assert_eq!(kubectl.prints(&["get", "services", "-A"]), "");
    }
}

#[test]
fn lists_are_read_in_chunks() {
    let server = served();
    let kubectls = Kubectl::all(&server);
    for name in ["s1", "s2", "s3"] {
        kubectls[0].prints(&["create", "quota", name, "-n", "wire", "--hard=services=1"]);
    }
    for kubectl in kubectls {
        let get = ["get", "quota", "-A", "--chunk-size=2", "--no-headers"];
        assert_eq!(kubectl.prints(&get).lines().count(), 4);
        assert_eq!(kubectl.prints(&[&get[..], &["-o", "name"]].concat()).lines().count(), 4);
    }
}

#[test]
fn get_prints_objects() {
    let server = served();
    for kubectl in Kubectl::all(&server) {
        let json: Value = serde_json::from_str(
            &kubectl.prints(&["get", "quota", "rq", "-n", "wire", "-o", "json"]),
        )
        .unwrap();
        let hard =
            json!({"pods": "10", "requests.cpu": "4", "requests.memory": "8Gi", "limits.cpu": "8"});
        assert_eq!((&json["apiVersion"], &json["kind"]), (&json!("v1"), &json!("ResourceQuota")));
        assert_eq!(json["spec"], json!({"hard": hard}));
        assert_eq!(json["status"]["hard"], hard);
        let used =
            json!({"pods": "1", "requests.cpu": "500m", "requests.memory": "0", "limits.cpu": "1"});
        assert_eq!(json["status"]["used"], used);
        let reserved =
            json!({"pods": "1", "requests.cpu": "250m", "requests.memory": "0", "limits.cpu": "0"});
        assert_eq!(json["status"]["reserved"], reserved);
        let hold = &json["status"]["reservations"][0];
        assert_eq!(
            hold["reservedBy"],
            json!({"apiVersion": "v1", "kind": "Pod", "name": "p2", "uid": "p2"})
        );
        assert_eq!(hold["reserved"], json!({"pods": "1", "requests.cpu": "250m"}));
        let yaml = kubectl.prints(&["get", "quota", "-n", "wire", "-o", "yaml"]);
        let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(yaml["kind"], "List");
        assert_eq!(yaml["items"][0]["spec"], json["spec"]);
        assert_eq!(yaml["items"][0]["kind"], "ResourceQuota");
        let path = kubectl.prints(&[
            "get",
            "quota",
            "-n",
            "wire",
            "-o",
            "jsonpath={.items[*].metadata.name}",
        ]);
        assert_eq!(path, "rq");
    }
}

#[test]
fn describe_shows_the_figures() {
    let server = served();
    for kubectl in Kubectl::all(&server) {
        let expected = "\
Name:            rq
Namespace:       wire
Resource         Used  Hard
--------         ----  ----
limits.cpu       1     8
pods             1     10
requests.cpu     500m  4
requests.memory  0     8Gi
";
        assert_eq!(kubectl.prints(&["describe", "quota", "rq", "-n", "wire"]), expected);
        assert_eq!(kubectl.prints(&["describe", "quota", "-n", "wire"]), expected);
        let namespace = kubectl.prints(&["describe", "ns", "wire"]);
        assert!(namespace.contains("Status:       Active"), "{namespace}");
        assert!(namespace.contains("requests.cpu     500m  4"), "{namespace}");
    }
}

#[test]
fn describe_shows_what_is_reserved_of_a_quota_that_says_so() {
    let server = served();
    for kubectl in Kubectl::all(&server) {
        let used = |pods: &str| {
            let described = kubectl.prints(&["describe", "quota", "rq", "-n", "wire"]);
            let pods_row = ["pods", pods, "10"];
            let words = |line: &str| line.split_whitespace().eq(pods_row);
            assert!(described.lines().any(words), "{described}");
        };
        used("1");
        let annotation = "kubectl.quota-ledger.io/used=with-reserved";
        kubectl.prints(&["annotate", "quota", "rq", "-n", "wire", annotation]);
        used("2");
        let json = kubectl.prints(&["get", "quota", "rq", "-n", "wire", "-o", "json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["status"]["reserved"]["pods"], "1");
        // The table has a column of its own.
        let table = kubectl.prints(&["get", "quota", "rq", "-n", "wire"]);
        assert!(table.contains("pods: 1/10"), "{table}");
        kubectl.prints(&["annotate", "quota", "rq", "-n", "wire", "kubectl.quota-ledger.io/used-"]);
        used("1");
    }
}

#[test]
fn namespaces_are_readable() {
    let server = served();
    for kubectl in Kubectl::all(&server) {
        let table = kubectl.prints(&["get", "ns"]);
        assert_eq!(cells(&table), [["NAME", "STATUS", "AGE"], ["wire", "Active", "<unknown>"]]);
        assert_eq!(
            kubectl.prints(&["get", "namespace", "other", "-o", "name"]),
            "namespace/other\n"
        );
        let refused = kubectl.fails(&["create", "ns", "new"]);
        assert!(refused.contains("MethodNotAllowed"), "{refused}");
    }
}

#[test]
fn discovery_names_what_there_is() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let reviews = kubectl.prints(&["api-resources", "--verbs=create", "--namespaced=false"]);
        let reviews = cells(&reviews);
        let kinds: Vec<_> = reviews.iter().filter_map(|row| row.last()).collect();
        let reviews = [
            "KIND",
            "SelfSubjectReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "ClusterResourceQuota",
        ];
        assert_eq!(kinds, reviews.iter().collect::<Vec<_>>());
        let table = kubectl.prints(&["api-resources", "--verbs=list", "--api-group="]);
        let expected = [
            ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"],
            ["events", "ev", "v1", "true", "Event"],
            ["namespaces", "ns", "v1", "false", "Namespace"],
            ["resourcequotas", "quota", "v1", "true", "ResourceQuota"],
        ];
        let table = cells(&table);
        assert_eq!(table[..4], expected);
        assert_eq!(table[4..], [["services", "v1", "true", "Service"]]);
        let wide = kubectl.prints(&["api-resources", "--api-group=", "-o", "wide"]);
        let wide = wide.lines().find(|line| line.starts_with("resourcequotas "));
        let wide = wide.unwrap();
        for verb in
            ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        {
            assert!(wide.contains(verb), "{wide}");
        }
        assert_eq!(
            kubectl.prints(&["api-versions"]),
            "authentication.k8s.io/v1\nauthorization.k8s.io/v1\nquota.openshift.io/v1\nv1\n"
        );
        let version = kubectl.prints(&["version", "-o", "json"]);
        let version: Value = serde_json::from_str(&version).unwrap();
        assert_eq!(version["serverVersion"]["major"], "1");
        assert_eq!(version["serverVersion"]["minor"], "36");
    }
}

#[test]
fn explain_tells_every_field() {
    let server = Server::start();
    for kubectl in Kubectl::all(&server) {
        let output = kubectl.prints(&["explain", "quota"]);
        assert!(output.contains("KIND:") && output.contains("ResourceQuota"), "{output}");
        assert!(
            output
                .contains("ResourceQuota sets aggregate quota restrictions enforced per namespace"),
            "{output}"
        );
        let output = kubectl.prints(&["explain", "quota.spec"]);
        for field in ["hard\t<map[string]", "scopeSelector\t<", "scopes\t<[]string>"] {
            assert!(output.contains(field), "{output}");
        }
        let output =
            kubectl.prints(&["explain", "quota.spec.scopeSelector.matchExpressions.operator"]);
        assert!(
            output.contains("Represents a scope's relationship to a set of values"),
            "{output}"
        );
        let output = kubectl.prints(&["explain", "quota", "--recursive"]);
        for field in ["ownerReferences", "reserved", "matchExpressions"] {
            assert!(output.contains(field), "{output}");
        }
    }
}
