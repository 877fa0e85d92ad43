use std::collections::{BTreeMap, BTreeSet};

use quota_core::decide::Policy;
use quota_journal::Pauses;
use quota_semantics::admission::Charging;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    admission::{Hook, Rules},
    api::{App, NoSources, Parts},
    config::Config,
    kube::Kube,
    recovery::recover,
    writer::{self, Watermark},
};

/// Method and path of every route, of which a router tells by its `Debug` only.
fn routes(router: &Router) -> BTreeSet<(String, String)> {
    let shown = format!("{router:?}");
    let (own, _) = shown.split_once("fallback_router: ").unwrap();
    let mut methods = BTreeMap::new();
    let mut paths = BTreeMap::new();
    for part in own.split("RouteId(").skip(1) {
        let (id, rest) = part.split_once("): ").unwrap();
        if let Some(path) = rest.strip_prefix('"') {
            paths.insert(id, path.split('"').next().unwrap());
        } else {
            let allowed = rest.split("allow_header: Bytes(b\"").nth(1);
            methods.insert(
                id,
                allowed.map_or("*", |text| text.split('"').next().unwrap()),
            );
        }
    }
    assert_eq!(methods.len(), paths.len(), "{shown}");
    let of_one = |(id, path): (&&str, &&str)| {
        let methods = methods[id].split(',').filter(|method| *method != "HEAD");
        let routes = methods.map(|method| (method.to_owned(), (*path).to_owned()));
        routes.collect::<Vec<_>>()
    };
    paths.iter().flat_map(of_one).collect()
}

#[tokio::test]
async fn every_route_is_in_the_table() {
    let directory = TempDir::new().unwrap();
    let config = Config {
        data_dir: directory.path().to_owned(),
        ..Config::default()
    };
    let recovered = recover(&config, Pauses::default()).unwrap();
    let options = writer::Options {
        policy: Policy::default(),
        queue: 1,
        max_batch_entries: 1,
    };
    let (ledger, threads) = writer::start(
        recovered.state,
        recovered.journal,
        recovered.durable,
        Arc::new(Watermark::without_sources()),
        options,
        |error| panic!("{error}"),
    )
    .unwrap();
    let app = App::new(Parts::new(
        &config,
        ledger.clone(),
        recovered.reader,
        Arc::new(NoSources),
        Policy::default(),
        Arc::default(),
        CancellationToken::new(),
    ));
    let rules = Rules {
        policy: Policy::default(),
        charging: Charging::default(),
        warn_ratio: 1.0,
        allow_when_behind: false,
        request_timeout: std::time::Duration::from_secs(1),
    };
    let hook = Hook::new(ledger.clone(), rules);
    let kube = Kube::start(ledger.clone(), (&config).into(), CancellationToken::new());
    let served = routes(&crate::daemon::routes(app, hook, kube));
    ledger.close();
    threads.join().unwrap().close().unwrap();

    assert!(served.len() > 15, "{served:?}");
    let listed: BTreeSet<_> = RULES
        .iter()
        .map(|rule| (rule.method.to_owned(), rule.path.to_owned()))
        .collect();
    let unlisted: Vec<_> = served.difference(&listed).collect();
    assert!(unlisted.is_empty(), "nobody may call {unlisted:?}");
}
