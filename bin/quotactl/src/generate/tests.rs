use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

use clap::Parser;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{
    args::{Arguments, Command},
    failure::{Exit, Failure},
    output::Format,
};

fn generate(line: &str) -> Generate {
    let words = ["quotactl", "generate"].into_iter().chain(line.split_whitespace());
    match Arguments::try_parse_from(words).unwrap().command {
        Command::Generate(generate) => generate,
        other => panic!("{other:?}"),
    }
}

fn webhook(line: &str) -> Outcome<serde_json::Value> {
    match generate(line) {
        Generate::Webhook(wanted) => configuration(&wanted),
        other => panic!("{other:?}"),
    }
}

fn silent() -> Output {
    Output::new(Format::Json, true, crate::output::Color::Never)
}

/// Runs a command that needs no connection.
fn start(command: &Generate) -> Outcome {
    run(command, &silent(), || Err(Failure::general("no connection")))
}

#[test]
fn the_webhook_asks_about_growth_only_and_spares_what_the_cluster_needs() {
    let made = webhook(
        "webhook --service quota-system/quotad:8443 --exempt nats --charge deployments.apps --count configmaps",
    );
    let made = made.unwrap();
    let hook = &made["webhooks"][0];
    assert_eq!(hook["failurePolicy"], "Ignore");
    assert_eq!(hook["sideEffects"], "NoneOnDryRun");
    assert_eq!(
        hook["clientConfig"]["service"],
        json!({"namespace": "quota-system", "name": "quotad", "port": 8443, "path": "/admit"})
    );
    assert_eq!(
        hook["namespaceSelector"]["matchExpressions"][0]["values"],
        json!(["kube-node-lease", "kube-public", "kube-system", "nats", "quota-system"])
    );
    let reviewed: Vec<String> = hook["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| format!("{} {} {}", rule["operations"], rule["apiGroups"], rule["resources"]))
        .collect();
    assert_eq!(
        reviewed,
        [
            r#"["CREATE","UPDATE"] [""] ["pods","services","persistentvolumeclaims"]"#,
            r#"["UPDATE"] [""] ["pods/resize","persistentvolumeclaims/status"]"#,
            r#"["CREATE","UPDATE"] ["resource.k8s.io"] ["resourceclaims"]"#,
            r#"["CREATE"] [""] ["configmaps"]"#,
            r#"["CREATE","UPDATE"] ["apps"] ["deployments"]"#,
            r#"["UPDATE"] ["apps"] ["deployments/scale"]"#,
        ]
    );
}

#[test]
fn a_webhook_that_cannot_work_is_refused() {
    for line in [
        "webhook --url http://127.0.0.1:8443",
        "webhook --service quotad",
        "webhook --service ns/name:port",
        "webhook --url https://h --charge daemonsets.apps",
    ] {
        assert_eq!(webhook(line).unwrap_err().exit, Exit::Usage, "{line}");
    }
    assert!(webhook("webhook --url https://h --ca-bundle /nonexistent").is_err());
    let url = webhook("webhook --url https://h:8443/").unwrap();
    assert_eq!(url["webhooks"][0]["clientConfig"]["url"], "https://h:8443/admit");
}

/// Whether a server can be set up with the certificates, as the daemon's listener is.
fn can_serve(dir: &std::path::Path) -> Result<(), String> {
    use rustls::{
        RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::WebPkiClientVerifier,
    };
    let certificates = |name: &str| -> Vec<_> {
        let read = CertificateDer::pem_file_iter(dir.join(name)).unwrap();
        read.map(Result::unwrap).collect()
    };
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca.crt") {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::from_pem_file(dir.join("tls.key")).unwrap();
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates("tls.crt"), key)
        .map(drop)
        .map_err(|error| error.to_string())
}

#[test]
fn certificates_are_made_once_and_can_be_used() {
    let directory = TempDir::new().unwrap();
    let dir = directory.path();
    let line = format!("certs --dir {} --host quotad.ns.svc,127.0.0.1", dir.display());
    start(&generate(&line)).unwrap();
    assert_eq!(can_serve(dir), Ok(()));
    for (name, mode) in [("tls.key", 0o600), ("client.key", 0o600), ("ca.crt", 0o644)] {
        let permissions = fs::metadata(dir.join(name)).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode, "{name}");
    }
    let before = fs::read(dir.join("tls.crt")).unwrap();
    assert_eq!(start(&generate(&line)).unwrap_err().exit, Exit::Conflict);
    assert_eq!(fs::read(dir.join("tls.crt")).unwrap(), before);
    start(&generate(&format!("{line} --force"))).unwrap();
    assert_ne!(fs::read(dir.join("tls.crt")).unwrap(), before);

    let bundle = format!("webhook --url https://h --ca-bundle {}", dir.join("ca.crt").display());
    assert!(webhook(&bundle).unwrap()["webhooks"][0]["clientConfig"]["caBundle"].is_string());
    let key = format!("webhook --url https://h --ca-bundle {}", dir.join("tls.key").display());
    assert!(webhook(&key).is_err(), "a key is no certificate");
}

#[test]
fn the_bridge_may_see_what_is_counted_and_nothing_else() {
    let bridge = |line: &str| match generate(line) {
        Generate::Bridge(wanted) => manifests(&wanted).unwrap()["items"].clone(),
        other => panic!("{other:?}"),
    };
    let items = bridge("bridge --count configmaps,widgets.example.com --charge deployments.apps");
    let kinds = |items: &serde_json::Value| -> Vec<String> {
        let items = items.as_array().unwrap();
        let kind = |item: &serde_json::Value| item["kind"].as_str().unwrap().to_owned();
        items.iter().map(kind).collect()
    };
    let expected = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    assert_eq!(kinds(&items), expected);
    let rules = items[1]["rules"].as_array().unwrap();
    let of_group = |group: &str| {
        let mut rules = rules.iter().filter(|rule| rule["apiGroups"] == json!([group]));
        rules.next_back().unwrap()["resources"].clone()
    };
    assert_eq!(
        of_group(""),
        json!(["configmaps", "persistentvolumeclaims", "pods", "resourcequotas", "services"])
    );
    assert_eq!(of_group("example.com"), json!(["widgets"]));
    assert_eq!(of_group("apps"), json!(["deployments"]));
    for rule in rules {
        for verb in rule["verbs"].as_array().unwrap() {
            assert!(["get", "list", "watch"].contains(&verb.as_str().unwrap()));
        }
    }
    assert_eq!(items[3]["metadata"]["namespace"], "quota-system");

    // The same for the kinds that quotas and groups name, if there can be such kinds.
    let dir = TempDir::new().unwrap();
    let quotas = dir.path().join("quotas.yaml");
    let text = r#"
apiVersion: v1
kind: List
items:
- {kind: ResourceQuota, spec: {hard: {pods: 4, configmaps: 1, requests.cpu: 2, count/events: 1}}}
- {kind: ClusterResourceQuota, spec: {quota: {hard: {count/widgets.example.com: 2, count/Deployments.apps: 1}}}}
---
{kind: Group, hard: {count/deployments.apps: 1}}
"#;
    fs::write(&quotas, text).unwrap();
    let named = bridge(&format!("bridge -f {}", quotas.display()));
    assert_eq!(named, items);

    let webhook = bridge("bridge --webhook quota-ledger");
    let rules = webhook[1]["rules"].as_array().unwrap();
    let of_webhook = rules
        .iter()
        .find(|rule| rule["resources"] == json!(["validatingwebhookconfigurations"]))
        .unwrap();
    assert_eq!(of_webhook["resourceNames"], json!(["quota-ledger"]));
    assert_eq!(of_webhook["verbs"], json!(["get", "update"]));
    let some = bridge("bridge --namespaces a,b");
    let roles = kinds(&some).iter().filter(|kind| *kind == "Role").count();
    assert_eq!(roles, 3, "one per namespace, and the Lease's");
    let rules = some[5]["rules"].to_string();
    assert!(!rules.contains("pods"), "{rules}");
}

#[test]
fn the_api_server_tells_of_creations_of_what_counts() {
    let audit = |line: &str| match generate(line) {
        Generate::Audit(wanted) => wanted,
        other => panic!("{other:?}"),
    };
    let wanted = audit(
        "audit --url https://10.96.0.20:8443/ --server-name quotad.quota-system.svc \
         --client-cert /etc/k/c.crt --client-key /etc/k/c.key --count configmaps,pods --charge deployments.apps",
    );
    let policy = policy(&wanted);
    assert_eq!(policy["rules"][0]["level"], "Metadata");
    assert_eq!(policy["rules"][0]["verbs"], json!(["create"]));
    assert_eq!(
        policy["rules"][0]["resources"],
        json!([
            {"group": "", "resources": ["pods", "services", "persistentvolumeclaims", "configmaps"]},
            {"group": "apps", "resources": ["deployments"]},
            {"group": "resource.k8s.io", "resources": ["resourceclaims"]},
        ])
    );
    assert_eq!(policy["rules"][1], json!({"level": "None"}));
    let config = audit_kubeconfig(&wanted).unwrap();
    let cluster = &config["clusters"][0]["cluster"];
    assert_eq!(cluster["server"], "https://10.96.0.20:8443/audit");
    assert_eq!(cluster["tls-server-name"], "quotad.quota-system.svc");
    assert_eq!(config["users"][0]["user"]["client-key"], "/etc/k/c.key");
    let by_token = audit("audit --url https://h --api-server-token /etc/k/token");
    let config = audit_kubeconfig(&by_token).unwrap();
    assert_eq!(config["users"][0]["user"], json!({"tokenFile": "/etc/k/token"}));
    let plain = audit("audit --url http://h");
    assert_eq!(audit_kubeconfig(&plain).unwrap_err().exit, Exit::Usage);
}

#[test]
fn alerts_come_as_a_rule_of_the_operator() {
    let line = "alerts --operator --monitoring-namespace obs --label release=prom,team=a";
    let Generate::Alerts(wanted) = generate(line) else {
        panic!("not alerts");
    };
    let text = prometheus_rule(&wanted);
    let rule: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(rule["kind"], "PrometheusRule");
    assert_eq!(rule["metadata"]["namespace"], "obs");
    assert_eq!(rule["metadata"]["labels"], json!({"release": "prom", "team": "a"}));
    let groups = rule["spec"]["groups"].as_array().unwrap();
    let rules: usize = groups.iter().map(|group| group["rules"].as_array().unwrap().len()).sum();
    assert!(rules > 20, "{rules}");
    let wrong = ["--label=a", "--runbooks=docs/alerts.md", "--runbooks=https://docs/#a"];
    for wrong in wrong {
        let line = ["quotactl", "generate", "alerts", wrong];
        assert!(Arguments::try_parse_from(line).is_err(), "{wrong}");
    }
}

#[test]
fn monitors_select_what_the_chart_labels() {
    let Generate::Servicemonitor(wanted) = generate("servicemonitor --target-namespace q") else {
        panic!("not a monitor");
    };
    let made = monitor(&wanted, "ServiceMonitor", "endpoints", "quotad");
    assert_eq!(made["spec"]["namespaceSelector"]["matchNames"], json!(["q"]));
    assert_eq!(made["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"], "quotad");
    assert_eq!(made["spec"]["endpoints"][0]["port"], "metrics");
}

#[test]
fn every_command_has_a_page_of_its_own() {
    let all = manual_pages().unwrap();
    let count = all.len();
    let pages: BTreeMap<_, _> =
        all.into_iter().map(|(name, text)| (name, String::from_utf8(text).unwrap())).collect();
    assert_eq!(pages.len(), count, "two pages have one name");
    for name in ["quotactl", "quotactl-get-quota", "quotactl-ledger-verify"] {
        let page = &pages[&format!("{name}.1")];
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
        let escaped = name.replace('-', "\\-");
        assert!(page.contains(&escaped), "{page}");
    }
    let reserve = &pages["quotactl-reserve.1"];
    assert!(reserve.contains("\\-\\-ttl") && reserve.contains("How long it is held"));
    assert!(pages["quotactl.1"].contains("10 denied, does not fit"));
}
