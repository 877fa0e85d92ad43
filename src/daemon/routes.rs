//! The whole route table, by listener.

#[cfg(test)]
mod tests;

use axum::extract::Request;
use quota_service::health::{self, Readiness, Render};
use tower::ServiceExt as _;

use crate::{
    admission::{self, Hook},
    api::{self, App},
    auth::Access::Public,
    kube::{self, Kube},
    routes::{Route, get, with_state},
    ui,
};

/// The routes of `listen`.
pub(crate) fn of_api(app: App, hook: Hook, kube: Kube) -> Vec<Route> {
    let mut routes = with_state(api::routes(), &app);
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
    let answer = move |request: Request| {
        let router = router.clone();
        async move { router.oneshot(request).await }
    };
    let paths = [
        (
            "/metrics",
            "[metrics](metrics.md), in the format that the scraper prefers",
        ),
        ("/livez", "whether the process answers"),
        ("/livez/{check}", "one check of it"),
        (
            "/readyz",
            "whether requests are answered; `verbose`, `exclude`",
        ),
        ("/readyz/{check}", "one check of it"),
        ("/healthz", "the same as `/livez`"),
        ("/healthz/{check}", "one check of it"),
    ];
    let route = |(path, about)| get(path, Public, answer.clone()).about(about);
    paths.into_iter().map(route).collect()
}

/// What is known about the routes of `listen`, without the state that they need.
#[cfg(test)]
pub(crate) fn specs() -> Vec<crate::routes::Spec> {
    fn of<S: 'static>(routes: &[Route<S>]) -> impl Iterator<Item = crate::routes::Spec> {
        routes.iter().map(|route| route.spec().clone())
    }
    let mut specs: Vec<_> = of(&api::routes()).collect();
    specs.extend(of(&admission::routes()));
    specs.extend(of(&kube::routes()));
    specs.extend(of(&ui::routes()));
    specs
}
