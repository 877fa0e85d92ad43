//! The page at `/ui`: static files inside the binary.
//!
//! The files contain no data: the page requests everything from the API, with the token that its user types. So it is
//! served to everybody who reaches the listener.

use std::sync::LazyLock;

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::{
    auth::Access::Public,
    precondition,
    problem::{Problem, Reason},
    routes::{Route, Target, get},
};

/// A file of the page.
struct Asset {
    /// Its path below `/ui`; empty for the page itself.
    path: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! assets {
    ($($path:literal: $media_type:expr => $file:literal,)*) => {
        &[$(Asset { path: $path, media_type: $media_type, bytes: include_bytes!($file) },)*]
    };
}

const ASSETS: &[Asset] = assets! {
    "": HTML => "page/index.html",
    "style.css": CSS => "page/style.css",
    "icon.svg": "image/svg+xml" => "page/icon.svg",
    "app.js": SCRIPT => "page/app.js",
    "api.js": SCRIPT => "page/api.js",
    "cluster.js": SCRIPT => "page/cluster.js",
    "denials.js": SCRIPT => "page/denials.js",
    "entries.js": SCRIPT => "page/entries.js",
    "explain.js": SCRIPT => "page/explain.js",
    "groups.js": SCRIPT => "page/groups.js",
    "history.js": SCRIPT => "page/history.js",
    "limit.js": SCRIPT => "page/limit.js",
    "live.js": SCRIPT => "page/live.js",
    "missing.js": SCRIPT => "page/missing.js",
    "namespace.js": SCRIPT => "page/namespace.js",
    "overview.js": SCRIPT => "page/overview.js",
    "parts.js": SCRIPT => "page/parts.js",
    "quantity.js": SCRIPT => "page/quantity.js",
    "report.js": SCRIPT => "page/report.js",
    "route.js": SCRIPT => "page/route.js",
    "sources.js": SCRIPT => "page/sources.js",
    "timebar.js": SCRIPT => "page/timebar.js",
    "why.js": SCRIPT => "page/why.js",
    "vendor/htm-preact.js": SCRIPT => "vendor/htm-preact.js",
    "vendor/uplot.js": SCRIPT => "vendor/uplot.js",
    "vendor/uplot.css": CSS => "vendor/uplot.css",
    "vendor/htm.LICENSE": TEXT => "vendor/htm.LICENSE",
    "vendor/preact.LICENSE": TEXT => "vendor/preact.LICENSE",
    "vendor/uplot.LICENSE": TEXT => "vendor/uplot.LICENSE",
};

/// The entity tag of each asset.
static TAGS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| {
    let tag = |asset: &Asset| {
        let hash = blake3::hash(asset.bytes).to_hex();
        HeaderValue::try_from(format!("\"{}\"", &hash[..32])).expect("a hash is ASCII")
    };
    ASSETS.iter().map(tag).collect()
});

/// Allows only resources from this server, and no inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The routes of the page.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/ui", Public, async |headers: HeaderMap| serve("", &headers))
            .about("a [page](ui.md) for people"),
        get("/ui/", Public, to_the_page).about("308: to the page"),
        get("/ui/{*path}", Public, asset).about("a file of the page"),
    ]
}

async fn asset(Target([path]): Target<1>, headers: HeaderMap) -> Response {
    serve(&path, &headers)
}

/// A relative location, which also works behind a proxy that adds a path prefix.
async fn to_the_page() -> Response {
    let location = [(header::LOCATION, "../ui")];
    (StatusCode::PERMANENT_REDIRECT, location).into_response()
}

fn serve(path: &str, headers: &HeaderMap) -> Response {
    let found = ASSETS.iter().zip(TAGS.iter());
    let Some((asset, tag)) = found.into_iter().find(|(asset, _)| asset.path == path) else {
        return Problem::new(Reason::NotFound, format!("there is nothing at /ui/{path}"))
            .into_response();
    };
    let mut response = match precondition::has(headers, tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Response::new(Body::from(Bytes::from_static(asset.bytes))),
    };
    let fixed = [
        (header::CONTENT_TYPE, asset.media_type),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let headers = response.headers_mut();
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::ETAG, tag.clone());
    response
}
