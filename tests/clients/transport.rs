//! What holds for answers whatever they are about: how they are encoded, and how times are written.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{Command, Stdio},
};

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::quotad::{Quotad, REQUEST, agent};

/// An answer to `GET`: its headers, and its bytes as they were sent.
fn get(url: &str, accept_encoding: Option<&str>) -> (ureq::http::HeaderMap, Vec<u8>) {
    let mut request = agent(REQUEST).get(url);
    if let Some(codings) = accept_encoding {
        request = request.header("accept-encoding", codings);
    }
    let mut response = request.call().unwrap();
    assert_eq!(response.status(), 200);
    let bytes = response.body_mut().read_to_vec().unwrap();
    (response.headers().clone(), bytes)
}

#[test]
fn long_answers_are_compressed_for_whoever_accepts_that() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let description = format!("{}/openapi.json", daemon.api);
    let (headers, plain) = get(&description, None);
    assert!(!headers.contains_key("content-encoding"));
    assert_eq!(headers["vary"], "accept-encoding");
    let (headers, zipped) = get(&description, Some("br, gzip;q=0.5"));
    assert_eq!(headers["content-encoding"], "gzip");
    assert_eq!(headers["vary"], "accept-encoding");
    assert_eq!(headers["content-length"], zipped.len().to_string());
    assert!(zipped.len() * 2 < plain.len());
    let mut text = Vec::new();
    GzDecoder::new(&*zipped).read_to_end(&mut text).unwrap();
    assert_eq!(text, plain);
    let (headers, refused) = get(&description, Some("gzip;q=0"));
    assert!(!headers.contains_key("content-encoding") && refused == plain);

    // Short ones are left alone.
    let (headers, short) = get(&format!("{}/v1/quotas", daemon.api), Some("gzip"));
    assert!(!headers.contains_key("content-encoding"));
    assert_eq!(serde_json::from_slice::<Value>(&short).unwrap()["items"], json!([]));
    // And so is what is streamed, of which the first byte must not wait for the next.
    let watch =
        agent(REQUEST).get(format!("{}/v1/watch", daemon.api)).header("accept-encoding", "gzip");
    let watch = watch.call().unwrap();
    assert_eq!(watch.headers()["content-type"], "text/event-stream");
    assert!(!watch.headers().contains_key("content-encoding"));
}

#[test]
fn http2_is_served_without_tls_too() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let fetch = |arguments: &[&str]| {
        let fetched = Command::new("curl")
            .args(["-s", "--http2-prior-knowledge", "-w", " %{http_version} %{http_code}"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(fetched.status.success(), "{fetched:?}");
        String::from_utf8(fetched.stdout).unwrap()
    };
    let reservations = format!("{}/v1/namespaces/a/reservations", daemon.api);
    let body = r#"{"reservedBy":{"uid":"u"},"reserved":{"pods":"1"}}"#;
    let granted = fetch(&["-d", body, &reservations]);
    assert!(granted.ends_with(" 2 201"), "{granted}");
    assert!(granted.contains("\"state\":\"pending\""), "{granted}");
    let quotas = format!("{}/v1/quotas", daemon.api);
    let foreign = fetch(&["-H", "host: evil.example", &quotas]);
    assert!(foreign.ends_with(" 2 421"), "{foreign}");
    let large = format!("x-large: {}", "v".repeat(20_000));
    assert!(fetch(&["-H", &large, &quotas]).ends_with(" 2 431"));
    // A request with `Upgrade: h2c` is answered over HTTP/1.1.
    let upgrading = Command::new("curl")
        .args(["-s", "--http2", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", &quotas])
        .output()
        .unwrap();
    assert_eq!(upgrading.stdout, b"1.1 200");
}

/// Lines come while the connection stays open, beside other requests on it.
#[test]
fn a_watch_is_served_by_http2_with_tls() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    fs::write(path("tls.crt"), certificate.pem()).unwrap();
    fs::write(path("tls.key"), key.serialize_pem()).unwrap();
    let daemon = Quotad::start(
        directory.path(),
        &["--tls.cert=tls.crt", "--tls.key=tls.key", "--tls.api=true"],
    );
    let api = daemon.api.replace("http://", "https://");
    let curl = |arguments: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-sN", "--http2", "--cacert"]);
        curl.arg(path("tls.crt")).args(arguments);
        curl
    };
    let watch = format!("{api}/v1/watch?from=1");
    let mut watching = curl(&["-D", "-", &watch]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(lines.next().unwrap().trim_end(), "HTTP/2 200");
    // After the headers, so that the watch is under way.
    assert!(lines.by_ref().any(|line| line.trim_end().is_empty()));
    for number in 1..=2 {
        let body = format!(r#"{{"reservedBy":{{"uid":"u{number}"}},"reserved":{{"pods":"1"}}}}"#);
        let reservations = format!("{api}/v1/namespaces/a/reservations");
        let granted = curl(&["-d", &body, &reservations]).output().unwrap();
        assert!(granted.status.success(), "{granted:?}");
        let uid = format!(r#""uid":"u{number}""#);
        assert!(lines.by_ref().any(|line| line.starts_with("data:") && line.contains(&uid)));
    }
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn compressed_bodies_are_refused() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let send = |coding: &str| {
        agent(REQUEST)
            .post(format!("{}/v1/events", daemon.api))
            .header("content-encoding", coding)
            .send("[]")
            .unwrap()
    };
    let mut refused = send("gzip");
    assert_eq!(refused.status(), 415);
    assert_eq!(refused.headers()["accept-encoding"], "identity");
    let problem: Value = refused.body_mut().read_json().unwrap();
    assert_eq!(problem["reason"], "UnsupportedMediaType");
    assert_eq!(send("identity").status(), 200);
}

#[test]
fn times_have_microseconds_and_find_what_they_were_shown_with() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let mut times = Vec::new();
    for uid in 0..20 {
        let body = json!({"reservedBy": {"uid": format!("u{uid}")}, "reserved": {"pods": "1"}, "ttl": "5m"});
        let sent = agent(REQUEST)
            .post(format!("{}/v1/namespaces/a/reservations", daemon.api))
            .send_json(&body);
        let answer: Value = sent.unwrap().body_mut().read_json().unwrap();
        times.push(answer["createdTime"].as_str().unwrap().to_owned());
        times.push(answer["expirationTime"].as_str().unwrap().to_owned());
        times.push(answer["asOf"]["time"].as_str().unwrap().to_owned());
    }
    for time in &times {
        let fraction = time.split_once('.').map_or(0, |(_, digits)| digits.len() - 1);
        assert!(fraction <= 6 && time.ends_with('Z'), "{time}");
    }
    // The latest entry is older than this answer, so its time is past.
    let last = daemon.get("/v1/entries?order=desc&limit=1")["items"][0].clone();
    let at = last["time"].as_str().unwrap();
    let then = daemon.get(&format!("/v1/namespaces/a/usage?at={at}"));
    assert_eq!(then["resources"][0]["reserved"], "20", "{then}");
}
