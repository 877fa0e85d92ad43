mod reading;
mod rights;
mod watches;

use std::{fs, sync::Arc};

use axum::{Router, body::Body};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use quota_semantics::{Span, Timestamp};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt as _;

use super::{Credential, Register, *};
use crate::{
    config::schema,
    daemon::specs,
    metrics::AuthRefusal,
    now,
    reload::Followed as _,
    routes::{Route, Rules, router},
    server::Peer,
};

fn token(principal: &str, roles: &[Role], namespaces: &[&str]) -> Issued {
    let namespaces = namespaces.iter().map(|text| text.parse().unwrap()).collect();
    issue(principal, roles.to_vec(), namespaces, None).unwrap()
}

fn file(tokens: &[&Issued]) -> File {
    File {
        tokens: tokens.iter().map(|issued| issued.record.clone()).collect(),
        certificates: Vec::new(),
    }
}

fn certificate(name: &str, principal: &str) -> Certificate {
    Certificate {
        name: name.to_owned(),
        principal: principal.to_owned(),
        roles: vec![Role::Read],
        namespaces: vec![Pattern::all()],
    }
}

fn headers(authorization: &[&str]) -> HeaderMap {
    let value = |text: &&str| (header::AUTHORIZATION, HeaderValue::from_str(text).unwrap());
    authorization.iter().map(value).collect()
}

/// The name of the principal that sends these headers.
fn who(
    register: &Register,
    authorization: &[&str],
    names: &[&str],
    now: Timestamp,
) -> Result<String, AuthRefusal> {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let credential = register.credential(&headers(authorization), &names)?;
    let holder = register.holder(&credential, now)?;
    Ok(holder.name().to_string())
}

#[test]
fn a_token_finds_its_principal() {
    let (one, two) = (token("ci", &[Role::Read], &["*"]), token("ci", &[Role::Read], &["*"]));
    let register = Register::from(file(&[&one, &two]));
    let who = |text: &str| who(&register, &[text], &[], now());
    for text in [&one, &two].map(|issued| issued.token.reveal().to_owned()) {
        assert_eq!(who(&format!("Bearer {text}")), Ok("ci".to_owned()));
        assert_eq!(who(&format!("bearer  {text}")), Ok("ci".to_owned()));
        // One digit more, one digit less, another digit; the id of another record.
        let last = if text.ends_with('0') { "1" } else { "0" };
        let shorter = &text[..text.len() - 1];
        let swapped = text.replace(&one.record.id, &two.record.id) + "0";
        for wrong in [format!("{text}0"), shorter.to_owned(), format!("{shorter}{last}"), swapped] {
            assert_eq!(who(&format!("Bearer {wrong}")), Err(AuthRefusal::Unknown), "{wrong}");
        }
        assert_eq!(who(&text), Err(AuthRefusal::Malformed));
        assert_eq!(who(&format!("Basic {text}")), Err(AuthRefusal::Malformed));
    }
    assert_eq!(who("Bearer qlt_unknown_00"), Err(AuthRefusal::Unknown));
    assert_eq!(who("Bearer "), Err(AuthRefusal::Malformed));
}

#[test]
fn a_token_ends_when_it_expires() {
    let mut issued = token("ci", &[Role::Read], &["*"]);
    let expires: Timestamp = "2027-01-01T00:00:00Z".parse().unwrap();
    issued.record.expires = Some(expires);
    let register = Register::from(file(&[&issued]));
    let shown = format!("Bearer {}", issued.token.reveal());
    let before = expires.minus(Span::from_nanoseconds(1));
    assert_eq!(who(&register, &[&shown], &[], before), Ok("ci".to_owned()));
    assert_eq!(who(&register, &[&shown], &[], expires), Err(AuthRefusal::Expired));
}

#[test]
fn a_certificate_is_known_by_its_first_name_with_a_record() {
    let issued = token("ci", &[Role::Read], &["*"]);
    let mut file = file(&[&issued]);
    file.certificates = vec![certificate("b.svc", "bridge"), certificate("kubelet", "node")];
    let register = Register::from(file);
    let who = |headers: &[&str], names: &[&str]| who(&register, headers, names, now());
    assert_eq!(who(&[], &["a.svc", "b.svc", "kubelet"]), Ok("bridge".to_owned()));
    assert_eq!(who(&[], &["a.svc"]), Err(AuthRefusal::Unknown));
    assert_eq!(who(&[], &[]), Err(AuthRefusal::Missing));
    // A token takes precedence over a certificate, valid or not.
    let shown = format!("Bearer {}", issued.token.reveal());
    assert_eq!(who(&[&shown], &["b.svc"]), Ok("ci".to_owned()));
    assert_eq!(who(&["Bearer qlt_a_b"], &["b.svc"]), Err(AuthRefusal::Unknown));
    assert_eq!(who(&[&shown, &shown], &["b.svc"]), Err(AuthRefusal::Malformed));
}

struct Setup {
    directory: TempDir,
    authenticator: Authenticator,
    follower: Follower,
}

impl Setup {
    fn new(file: &File) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("tokens.toml");
        fs::write(&path, file.to_toml().unwrap()).unwrap();
        let config = schema::Auth { tokens_file: Some(path), ..schema::Auth::default() };
        let (authenticator, follower) = Authenticator::load(&config).unwrap();
        Self { directory, authenticator, follower: follower.unwrap() }
    }

    fn change(&mut self, text: &str) {
        fs::write(self.directory.path().join("tokens.toml"), text).unwrap();
        self.follower.look();
    }

    /// Every route of the table; each responds with the caller's name.
    fn router(&self) -> Router {
        everything(&self.authenticator)
    }
}

/// A response of a router.
async fn call(router: &Router, request: Request<Body>) -> Response<Body> {
    router.clone().oneshot(request).await.unwrap()
}

fn everything(authenticator: &Authenticator) -> Router {
    let name = |principal: Principal, headers: HeaderMap| async move {
        assert!(headers.get(header::AUTHORIZATION).is_none(), "handlers see no token");
        principal.name().to_string()
    };
    let specs = specs().into_iter();
    let of_callers = specs.filter(|spec| spec.access != Access::Public);
    let routes = of_callers.map(|spec| Route::of(spec, name));
    let rules = Rules::default().with_authenticator(authenticator.clone());
    router(routes, rules)
}

fn request(method: &str, path: &str, token: Option<&Issued>) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    let request = match token {
        Some(issued) => {
            request.header("authorization", format!("Bearer {}", issued.token.reveal()))
        }
        None => request,
    };
    request.body(Body::empty()).unwrap()
}

async fn text(response: Response<Body>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

async fn json(response: Response<Body>) -> Value {
    serde_json::from_str(&text(response).await).unwrap()
}

#[tokio::test]
async fn certificates_are_known_by_the_names_of_the_connection() {
    let mut file = File::default();
    file.certificates.push(certificate("bridge.svc", "bridge"));
    let setup = Setup::new(&file);
    let named = async |names: &[&str]| {
        let mut request = request("GET", "/v1/quotas", None);
        request.extensions_mut().insert(Peer {
            address: ([127, 0, 0, 1], 1).into(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        });
        call(&setup.router(), request).await
    };
    assert_eq!(text(named(&["x", "bridge.svc"]).await).await, "bridge");
    assert_eq!(named(&["x"]).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn without_a_file_everybody_may_do_everything() {
    let (authenticator, follower) = Authenticator::load(&schema::Auth::default()).unwrap();
    assert!(follower.is_none());
    let router = everything(&authenticator);
    let stranger = token("ci", &[Role::Read], &["*"]);
    for (path, issued) in [("/v1/quotas", None), ("/v1/quotas", Some(&stranger))] {
        let response = call(&router, request("GET", path, issued)).await;
        assert_eq!(text(response).await, "anonymous");
    }
}

#[test]
fn nothing_secret_is_in_debug() {
    let issued = token("ci", &[Role::Read], &["*"]);
    let register = Register::from(file(&[&issued]));
    let shown = format!("{issued:?} {register:?} {:?}", file(&[&issued]));
    assert!(!shown.contains(&issued.token.reveal()[20..]), "{shown}");
}

fn is_foreign(uri: &str, headers: &[(&str, &str)]) -> bool {
    let request = headers
        .iter()
        .fold(Request::post(uri), |request, (name, value)| request.header(*name, *value));
    let request = request.body(()).unwrap();
    is_foreign_page(request.uri(), request.headers())
}

#[test]
fn a_page_is_of_the_origin_that_the_header_names() {
    let host = ("host", "127.0.0.1:8480");
    assert!(!is_foreign("/", &[host]));
    assert!(!is_foreign("/", &[host, ("origin", "http://127.0.0.1:8480")]));
    for origin in ["https://evil.example", "null", "", "http://127.0.0.1:80"] {
        assert!(is_foreign("/", &[host, ("origin", origin)]), "{origin}");
        assert!(is_foreign("/", &[("origin", origin)]), "{origin}");
    }
}

#[test]
fn over_http2_a_page_is_of_the_origin_that_the_uri_names() {
    let uri = "https://quotad.example:8480/v1/check";
    let (own, foreign) = ("https://quotad.example:8480", "https://evil.example");
    assert!(!is_foreign(uri, &[]));
    assert!(!is_foreign(uri, &[("origin", own)]));
    assert!(is_foreign(uri, &[("origin", foreign)]));
    let host = ("host", "evil.example");
    assert!(!is_foreign(uri, &[host, ("origin", own)]));
    assert!(is_foreign(uri, &[host, ("origin", foreign)]));
}
