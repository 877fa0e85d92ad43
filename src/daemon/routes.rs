//! The whole route table, by listener.

#[cfg(test)]
mod tests;

use axum::extract::Request;
use quota_service::health::{self, Readiness, Render};
use tower::ServiceExt as _;

use crate::{
    admission::{self, Hook},
    api::{self, App},
    auth::Access::{self, Authenticated, Public},
    kube::{self, Kube},
    routes::{Route, get, with_state},
    ui,
};

/// The routes of `listen`.
pub(crate) fn of_api(app: App, hook: Hook, kube: Kube, readiness: Readiness) -> Vec<Route> {
    let mut routes = with_state(api::routes(), &app);
    routes.extend(by_router(&health::probes(readiness), Authenticated, &health::PROBES));
    routes.extend(of_webhook(hook));
    routes.extend(with_state(kube::routes(), &kube));
    routes.extend(ui::routes());
    routes
}

/// The routes of `admission.listen`.
pub(crate) fn of_webhook(hook: Hook) -> Vec<Route> {
    with_state(admission::routes(), &hook)
}

/// The routes of `admin.listen`.
pub(crate) fn of_admin(metrics: Render, readiness: Readiness) -> Vec<Route> {
    let router = health::router(metrics, readiness);
    let mut routes = by_router(&router, Public, &health::PROBES);
    routes.extend(by_router(&router, Public, &[METRICS]));
    routes
}

const METRICS: (&str, &str) =
    ("/metrics", "[metrics](metrics.md), in the format that the scraper prefers");

/// Routes that an axum router answers.
fn by_router(
    router: &axum::Router,
    access: Access,
    paths: &[(&'static str, &'static str)],
) -> Vec<Route> {
    let router = router.clone();
    let answer = move |mut request: Request| {
        let router = router.clone();
        // This router finds the variable parts of the path itself: it would add them to those found before.
        request.extensions_mut().clear();
        async move { router.oneshot(request).await }
    };
    let route = |(path, about): &(&'static str, &'static str)| {
        get(path, access, answer.clone()).about(about)
    };
    paths.iter().map(route).collect()
}

/// The specs of the routes of `listen`, without the state that handlers need.
#[cfg(test)]
pub(crate) fn specs() -> Vec<crate::routes::Spec> {
    fn of<S: 'static>(routes: &[Route<S>]) -> impl Iterator<Item = crate::routes::Spec> {
        routes.iter().map(|route| route.spec().clone())
    }
    let mut specs: Vec<_> = of(&api::routes()).collect();
    specs.extend(of(&admission::routes()));
    specs.extend(of(&kube::routes()));
    specs.extend(of(&ui::routes()));
    specs.extend(of(&by_router(&axum::Router::new(), Authenticated, &health::PROBES)));
    specs
}
