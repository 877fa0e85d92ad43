//! Audit events release capacity: who may send them, and what they can release.

use std::{fs, net::TcpStream, path::Path, sync::Arc};

use quota_client::tokens::{File, Pattern, Role, issue};
use rustls::{
    ClientConnection, StreamOwned,
    pki_types::ServerName,
    version::{TLS12, TLS13},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    review,
    support::{
        certificates::{self, Authority, Pair, authority},
        exchange::{Answer, exchange},
        quotad::Quotad,
    },
};

/// A daemon with a quota of one pod in the namespace `a`, and with a webhook.
struct Webhook {
    daemon: Quotad,
    authority: Authority,
    own: Option<Pair>,
    _directory: TempDir,
}

impl Webhook {
    /// `prepare` adds files, and returns further arguments.
    fn start(prepare: impl FnOnce(&Path, &Authority) -> Vec<String>) -> Self {
        let (directory, authority) = (TempDir::new().unwrap(), authority());
        certificates::signed(&authority, &["quota.svc"]).write(directory.path(), "tls");
        let mut arguments = prepare(directory.path(), &authority);
        let webhook = ["--admission.listen=127.0.0.1:0", "--tls.cert=tls.crt", "--tls.key=tls.key"];
        arguments.extend(webhook.map(str::to_owned));
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        Self {
            daemon: Quotad::start(directory.path(), &arguments),
            authority,
            own: None,
            _directory: directory,
        }
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let stream = TcpStream::connect(self.daemon.ready["admission"].as_str().unwrap()).unwrap();
        let server = ServerName::try_from("quota.svc").unwrap();
        let (trusted, versions) = (self.authority.pem(), [&TLS13, &TLS12]);
        let client = certificates::client(&trusted, self.own.as_ref(), &versions);
        let connection = ClientConnection::new(Arc::new(client), server).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let headers = [&[("content-type", "application/json"), ("connection", "close")], headers];
        exchange(&mut stream, ("POST", path), &headers.concat(), body.to_string().as_bytes())
            .unwrap()
    }

    fn admit(&self, review: &Value) -> Value {
        let answer = self.post("/admit", &[], review);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["response"].clone()
    }

    fn set_quota(&self, headers: &[(&str, &str)]) {
        let quota = json!({"spec": {"hard": {"pods": "1"}}});
        let path = "/v1/namespaces/a/quotas/q";
        let (status, body) = self.daemon.call("PUT", path, headers, &quota);
        assert_eq!(status, 201, "{body}");
    }
}

/// The event of a creation that was refused after this answer.
fn failed(admitted: &Value) -> Value {
    let hold = &admitted["auditAnnotations"]["hold"];
    assert!(hold.is_string(), "{admitted}");
    json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [{
        "stage": "ResponseComplete", "verb": "create", "user": {"username": "somebody"},
        "objectRef": {"resource": "pods", "namespace": "a"}, "responseStatus": {"code": 403},
        "annotations": {"quota.example.com/hold": hold}}]})
}

#[test]
fn nobody_gets_the_seal_of_anothers_reservation_nor_releases_it() {
    let webhook = Webhook::start(|_, _| Vec::new());
    webhook.set_quota(&[]);
    let victim = review("a", "victim", "1");
    let first = webhook.admit(&victim);
    assert_eq!(first["allowed"], true, "{first}");
    // Somebody repeats the review, as it was and for more.
    for again in [victim.clone(), review("a", "victim", "2")] {
        let answer = webhook.admit(&again);
        assert_eq!(answer["allowed"], true, "{answer}");
        let hold = &answer["auditAnnotations"]["hold"];
        assert!(hold.is_null(), "{answer}");
    }
    // Not even with the seal: nobody knows who sends the event.
    let event = failed(&first);
    for headers in [&[][..], &[("authorization", "Bearer qlt_0123456789ab_x")]] {
        let answer = webhook.post("/audit", headers, &event);
        assert_eq!(answer.status, 401, "{answer:?}");
        assert_eq!(answer.json()["reason"], "Unauthorized", "{answer:?}");
    }
    let other = webhook.admit(&review("a", "other", "1"));
    assert_eq!(other["allowed"], false, "{other}");
    // The API has all roles for everybody there.
    let (status, answer) = webhook.daemon.post("/audit", &event);
    assert_eq!((status, &answer["released"]), (200, &json!(1)), "{answer}");
}

#[test]
fn audit_events_need_a_token_where_no_certificate_is_asked_for() {
    let mut tokens = Vec::new();
    let webhook = Webhook::start(|directory, _| {
        let mut file = File::default();
        let principals = [
            ("apiserver", vec![Role::Reserve, Role::Admin], "*"),
            ("tenant", vec![Role::Reserve], "a"),
            ("reader", vec![Role::Read], "*"),
        ];
        for (name, roles, namespaces) in principals {
            let namespaces: Vec<Pattern> = vec![namespaces.parse().unwrap()];
            let issued = issue(name, roles, namespaces, None).unwrap();
            tokens.push(format!("Bearer {}", issued.token.reveal()));
            file.tokens.push(issued.record);
        }
        fs::write(directory.join("tokens.toml"), file.to_toml().unwrap()).unwrap();
        vec!["--auth.tokens_file=tokens.toml".to_owned()]
    });
    let [apiserver, tenant, reader] = &tokens[..] else {
        panic!("{tokens:?}");
    };
    webhook.set_quota(&[("authorization", apiserver)]);
    // Reviews need none, as before.
    let event = failed(&webhook.admit(&review("a", "u", "1")));
    assert_eq!(webhook.post("/audit", &[], &event).status, 401);
    for token in [tenant, reader] {
        let answer = webhook.post("/audit", &[("authorization", token)], &event);
        assert_eq!(answer.status, 403, "{answer:?}");
    }
    let answer = webhook.post("/audit", &[("authorization", apiserver)], &event);
    assert_eq!(answer.json(), json!({"events": 1, "released": 1}));
}

#[test]
fn audit_events_come_with_the_certificate_of_the_webhook() {
    let mut webhook = Webhook::start(|directory, authority| {
        fs::write(directory.join("ca.crt"), authority.pem()).unwrap();
        ["--tls.client_ca=ca.crt", "--tls.allowed_names=kube-apiserver"].map(str::to_owned).into()
    });
    webhook.own = Some(certificates::signed(&webhook.authority, &["kube-apiserver"]));
    webhook.set_quota(&[]);
    let event = failed(&webhook.admit(&review("a", "u", "1")));
    // No page sends reviews or events, whatever the browser shows for it.
    let foreign = [("origin", "https://evil.example")];
    for (path, body) in [("/audit", &event), ("/admit", &review("a", "v", "1"))] {
        let answer = webhook.post(path, &foreign, body);
        assert_eq!(answer.status, 403, "{answer:?}");
        assert_eq!(answer.json()["reason"], "CrossOrigin", "{answer:?}");
        let (status, answer) = webhook.daemon.call("POST", path, &foreign, body);
        assert_eq!((status, &answer["reason"]), (403, &json!("CrossOrigin")), "{answer}");
    }
    let answer = webhook.post("/audit", &[], &event);
    assert_eq!(answer.json(), json!({"events": 1, "released": 1}));
}
