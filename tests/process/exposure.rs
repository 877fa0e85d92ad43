//! What others than the operator can reach and read.

use std::{
    fs::Permissions,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{
    exchange::exchange,
    programs::{certificates, quotactl},
    quotad::{Quotad, with_config},
};
use tempfile::TempDir;

use super::{admin, output};

#[test]
fn what_lets_others_in_is_warned_about() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("config.toml");
    let config = "[admin]\nlisten = \"0.0.0.0:0\"\n[admission]\nlisten = \"127.0.0.1:0\"\n[auth]\nallow_anonymous_non_loopback = true\n\
        [tls]\ncert = \"tls.crt\"\nkey = \"tls.key\"\n";
    std::fs::write(file, config).unwrap();
    certificates(directory.path(), "localhost");
    let mut check = Command::new(env!("CARGO_BIN_EXE_quotad"));
    check.current_dir(directory.path()).env_clear();
    let (code, _, stderr) = output(check.arg("check-config"));
    assert_eq!(code, Some(0));
    let warnings: Vec<_> = stderr.lines().collect();
    let keys = ["admin.listen", "admission.listen", "auth.allow_anonymous_non_loopback"];
    assert_eq!(warnings.len(), keys.len(), "{stderr}");
    for (line, key) in warnings.iter().zip(keys) {
        assert!(line.starts_with(&format!("warning: {key}: ")), "{line}");
    }

    // Here it is on loopback only, by a flag.
    let daemon = Quotad::start(directory.path(), &[]);
    let log = std::fs::read_to_string(directory.path().join("quotad.log")).unwrap();
    let warned: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &serde_json::Value| line["level"] == "WARN" && line["key"].is_string())
        .collect();
    assert_eq!(warned.len(), 2, "{log}");
    assert_eq!(warned[0]["key"], keys[1]);
    assert_eq!(warned[1]["key"], keys[2]);
    drop(daemon);
}

#[test]
fn a_ca_that_guards_less_than_one_may_think_is_warned_about() {
    let directory = TempDir::new().unwrap();
    let warned = |config: &str| {
        std::fs::write(directory.path().join("config.toml"), config).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_quotad"));
        check.current_dir(directory.path()).env_clear();
        let (code, _, stderr) = output(check.arg("check-config"));
        assert_eq!(code, Some(0), "{stderr}");
        stderr
    };
    let tls = "[tls]\ncert = \"tls.crt\"\nkey = \"tls.key\"\nclient_ca = \"ca.crt\"\n";
    let of_none = warned(tls);
    assert!(of_none.starts_with("warning: tls.client_ca: requests no certificate"), "{of_none}");
    let of_the_api = warned(&format!("{tls}api = true\n"));
    assert!(
        of_the_api.starts_with("warning: tls.client_ca: keeps nobody away from the API"),
        "{of_the_api}"
    );
    let webhook = "allowed_names = [\"apiserver\"]\n[admission]\nlisten = \"127.0.0.1:0\"\n";
    let of_both = warned(&format!("{tls}api = true\n{webhook}"));
    assert!(
        of_both.starts_with("warning: tls.client_ca: keeps nobody away from the API"),
        "{of_both}"
    );
    let records = "[auth]\ntokens_file = \"tokens.toml\"\n";
    assert_eq!(warned(&format!("{tls}api = true\n{records}")), "");
    assert_eq!(warned(&format!("{tls}{webhook}")), "");
}

#[test]
fn a_page_that_has_its_name_lead_here_gets_nothing() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("config.toml");
    std::fs::write(file, "[http]\nallowed_hosts = [\"quotad.quota.svc\"]\n").unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let get = |address: &str, path: &str, host: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let headers = [("host", host), ("connection", "close")];
        exchange(&mut stream, ("GET", path), &headers, b"").unwrap()
    };
    let api = daemon.ready["api"].as_str().unwrap();
    for path in
        ["/v1/quotas", "/api/v1/resourcequotas", "/v1/namespaces/a/reservations", "/nowhere"]
    {
        for host in ["evil.example", "evil.example:8480", "", "10.0.0.1"] {
            let refused = get(api, path, host);
            assert_eq!(refused.status, 421, "{host}: {refused:?}");
            let is_problem = refused.head.contains("application/problem+json");
            assert!(is_problem, "{refused:?}");
            assert_eq!(refused.json()["reason"], "Misdirected", "{refused:?}");
        }
    }
    // On loopback, metrics and probes are for this host, too.
    for host in ["evil.example", "[::1]evil", "127.0.0.1:evil", "10.1.2.3:8481"] {
        for (address, path) in
            [(api, "/v1/quotas"), (admin(&daemon), "/metrics"), (admin(&daemon), "/readyz")]
        {
            let refused = get(address, path, host);
            assert_eq!(refused.status, 421, "{host}: {refused:?}");
            assert!(!refused.body.contains("quota_ledger_"), "{refused:?}");
        }
    }
    let allowed = ["localhost", "127.0.0.1", "[::1]:80", "quotad.quota.svc:8480"];
    for host in allowed.into_iter().chain([api]) {
        for (address, path) in [(api, "/v1/quotas"), (admin(&daemon), "/metrics")] {
            let answer = get(address, path, host);
            assert_eq!(answer.status, 200, "{host}: {answer:?}");
        }
    }
    drop(daemon);

    // Elsewhere, probes and Prometheus come by the pod's address or by a name.
    let mut command = with_config(directory.path());
    command.args(["--listen=127.0.0.1:0", "--admin.listen=0.0.0.0:0"]);
    let daemon = Quotad::try_start(directory.path(), &mut command).unwrap();
    let port = admin(&daemon).rsplit_once(':').unwrap().1;
    for host in ["10.1.2.3:8481", "quotad.quota.example"] {
        for path in ["/readyz", "/metrics"] {
            let answer = get(&format!("127.0.0.1:{port}"), path, host);
            assert_eq!(answer.status, 200, "{host}: {answer:?}");
        }
    }
}

/// Nor in the effective configuration, nor in the log at its most detailed level.
#[test]
fn secrets_in_urls_are_printed_nowhere() {
    let directory = TempDir::new().unwrap();
    let config = "[nats]\nurl = \"nats://me:s3cret@127.0.0.1:1,s3cret@127.0.0.1:1\"\n\
        [cluster]\nmonitoring = [\"http://me:s3cret@127.0.0.1:1/?key=s3cret\"]\n\
        [traces]\notlp_url = \"http://me:s3cret@127.0.0.1:1/?key=s3cret\"\n";
    std::fs::write(directory.path().join("config.toml"), config).unwrap();
    let check = |arguments: &[&str]| {
        let mut check = Command::new(env!("CARGO_BIN_EXE_quotad"));
        check.current_dir(directory.path()).env_clear();
        let (_, stdout, stderr) = output(check.arg("check-config").args(arguments));
        format!("{stdout}{stderr}")
    };
    assert!(check(&[]).contains("***"));
    // A value of another form is repeated in the message.
    for wrong in [
        "--admission.warn_ratio=http://me:s3cret@h/?key=s3cret",
        "--nats.url=http://me:s3cret@h/",
        "--cluster.monitoring=http://me:s3cret@h",
    ] {
        for printed in [check(&[]), check(&[wrong])] {
            assert!(!printed.contains("s3cret"), "{printed}");
        }
    }
    // Nobody answers there.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let arguments = [
        "--log.level=trace".to_owned(),
        format!("--nats.url=nats://me:s3cret@{address},s3cret@{address}"),
        format!("--traces.otlp_url=http://me:s3cret@{address}/"),
    ];
    std::fs::remove_file(directory.path().join("config.toml")).unwrap();
    let daemon = Quotad::start(directory.path(), &arguments.each_ref().map(String::as_str));
    daemon.logged("callback-selected server connection failed");
    drop(daemon);
    let log = std::fs::read_to_string(directory.path().join("quotad.log")).unwrap();
    assert!(log.contains("credentials in an address are not used"), "{log}");
    for line in log.lines() {
        assert!(!line.contains("s3cret"), "{line}");
    }
}

/// Everything below a directory that others may look into.
fn open_to_others(directory: &Path) -> Vec<PathBuf> {
    let mut open = Vec::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(path) = left.pop() {
        let metadata = std::fs::metadata(&path).unwrap();
        if metadata.permissions().mode() & 0o077 != 0 {
            open.push(path.clone());
        }
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            left.extend(entries.map(|entry| entry.unwrap().path()));
        }
    }
    open
}

#[test]
fn others_cannot_read_the_ledger_nor_what_is_made_of_it() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let quota = serde_json::json!({ "spec": { "hard": { "pods": "1" } } });
    let path = "/v1/namespaces/demo/quotas/compute";
    assert_eq!(daemon.put(path, &quota).0, 201);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(quotactl());
        let done = command.current_dir(&directory).args(arguments).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    run(&["backup", "copy", "--server", &daemon.api]);
    assert_eq!(daemon.stop().code(), Some(0));
    run(&["ledger", "export", "--data-dir", "data", "export.txt"]);
    run(&["ledger", "restore", "copy", "--data-dir", "restored"]);
    for name in ["data", "copy", "export.txt", "restored"] {
        let open = open_to_others(&directory.path().join(name));
        assert!(open.is_empty(), "{open:?}");
    }
}
