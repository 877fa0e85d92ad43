//! A node of a cluster that does not know whether it still leads.

use std::{future::Future, pin::Pin, sync::atomic::AtomicBool, sync::atomic::Ordering};

use http::{StatusCode, header};
use quota_core::decide::Policy;
use quota_journal::{Batch, Durable, Error, Journal};

use super::*;
use crate::{
    intake::sources::NoSources,
    router::Router,
    routes::with_state,
    writer::{self, Lease, Watermark},
};

/// A journal that accepts everything.
struct Memory;

impl Journal for Memory {
    fn append(&mut self, _: Batch) -> Result<(), Error> {
        Ok(())
    }

    fn sync(&mut self) -> Result<Durable, Error> {
        Ok(Durable::NOTHING)
    }
}

/// A lease that is valid or not.
struct Switch(Arc<AtomicBool>);

impl Lease for Switch {
    fn confirm(&self) -> Pin<Box<dyn Future<Output = Result<(), Unavailable>> + Send + '_>> {
        let confirmed = match self.0.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(Unavailable::NotLeader),
        };
        Box::pin(std::future::ready(confirmed))
    }
}

const REVIEW: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{
    "uid":"r-1","kind":{"group":"","version":"v1","kind":"Pod"},
    "resource":{"group":"","version":"v1","resource":"pods"},"name":"a","namespace":"team-a","operation":"CREATE",
    "userInfo":{"username":"jane"},"object":OBJECT}}"#;

const POD: &str = r#"{"metadata":{"name":"a","uid":"u-1"},"spec":{"containers":[{"name":"c"}]}}"#;

/// Another leader may have set a quota, of which this node has not heard.
#[tokio::test]
async fn a_leader_that_is_cut_off_does_not_take_a_namespace_for_unlimited() {
    let options = writer::Options {
        policy: Policy::default(),
        queue: 8,
        max_batch_entries: 8,
    };
    let (ledger, threads) = writer::start(
        LedgerState::default(),
        Memory,
        Durable::NOTHING,
        Arc::new(Watermark::without_sources()),
        options,
        |error| panic!("{error}"),
    )
    .unwrap();
    let leads = Arc::new(AtomicBool::new(true));
    ledger.confirm_reads_by(Box::new(Switch(leads.clone())));
    let rules = Rules {
        charging: Charging::default(),
        warn_ratio: 0.9,
        allow_when_behind: false,
        request_timeout: Duration::from_secs(10),
    };
    let router = Router::new(with_state(
        routes(),
        &Hook::new(ledger.clone(), Arc::new(NoSources), rules),
    ));
    let send = async |object: &str| {
        let body = Body::from(REVIEW.replace("OBJECT", object));
        let request = Request::post(ROUTE)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .unwrap();
        router.call(request).await.status()
    };
    // The second one cannot be understood.
    for object in [POD, "7"] {
        leads.store(true, Ordering::Relaxed);
        assert_eq!(send(object).await, StatusCode::OK, "{object}");
        leads.store(false, Ordering::Relaxed);
        let status = send(object).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{object}");
    }
    ledger.close();
    threads.join().unwrap();
}
