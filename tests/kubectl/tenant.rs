//! A tenant with a token over TLS, with the kubeconfig that `quotactl generate kubeconfig` prints.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    server::Kubectl,
    support::{
        certificates::{authority, signed},
        programs::{create_token, quotactl},
        quotad::Quotad,
    },
};

/// A kubeconfig for a token, beside its file.
fn kubeconfig(directory: &Path, server: &str, name: &str, token: &str) -> String {
    let token_file = directory.join(format!("{name}.token"));
    fs::write(&token_file, token).unwrap();
    let mut generate = Command::new(quotactl());
    generate.args(["generate", "kubeconfig", "--server", server, "--config", "/dev/null"]);
    generate.arg("--ca").arg(directory.join("ca.pem"));
    generate.arg("--token-file").arg(&token_file);
    let output = generate.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let file = directory.join(format!("{name}.kubeconfig"));
    fs::write(&file, output.stdout).unwrap();
    file.display().to_string()
}

#[test]
fn a_tenant_sees_its_own_namespaces() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let authority = authority();
    fs::write(path.join("ca.pem"), authority.pem()).unwrap();
    signed(&authority, &["127.0.0.1"]).write(path, "quota");
    let tokens = path.join("tokens.toml");
    let admin = create_token(&tokens, "--principal root --role admin,read,reserve -A");
    let tenant = create_token(&tokens, "--principal tenant --role read -n pay-*");
    let daemon = Quotad::start(
        path,
        &[
            "--auth.tokens_file=tokens.toml",
            "--tls.cert=quota.crt",
            "--tls.key=quota.key",
            "--tls.api=true",
        ],
    );
    let server = daemon.api.replace("http://", "https://");
    let [admin, tenant] = [("root", &admin), ("tenant", &tenant)]
        .map(|(name, token)| kubeconfig(path, &server, name, token));
    for kubectl in Kubectl::all_at(&server) {
        let with = |config: &str, arguments: &[&str]| {
            kubectl.prints(&[&["--kubeconfig", config], arguments].concat())
        };
        for namespace in ["other", "pay-a"] {
            let name = format!("q{}", kubectl.minor);
            with(&admin, &["create", "quota", &name, "-n", namespace, "--hard=pods=10"]);
        }
        let quotas = with(&tenant, &["get", "quota", "-A", "-o", "json"]);
        let quotas: Value = serde_json::from_str(&quotas).unwrap();
        let items = quotas["items"].as_array().unwrap().iter();
        assert!(items.clone().count() > 0);
        assert!(items.into_iter().all(|it| it["metadata"]["namespace"] == "pay-a"), "{quotas}");
        assert_eq!(with(&tenant, &["get", "ns", "-o", "name"]), "namespace/pay-a\n");
        let can = ["auth", "can-i", "list", "resourcequotas", "-A"];
        assert_eq!(with(&tenant, &can), "yes\n");
        let refused = kubectl.fails(&["--kubeconfig", &tenant, "get", "quota", "-n", "other"]);
        assert!(refused.contains("Forbidden"), "{refused}");
    }
    assert!(daemon.stop().success());
}

#[test]
fn a_kubeconfig_with_a_token_over_http_is_refused() {
    let mut generate = Command::new(quotactl());
    generate.args([
        "generate",
        "kubeconfig",
        "--server",
        "http://127.0.0.1:1",
        "--token-file",
        "t",
    ]);
    let output = generate.args(["--config", "/dev/null"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("kubectl sends no token over http"), "{error}");
}
