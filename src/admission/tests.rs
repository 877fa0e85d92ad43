//! A node of a cluster that does not know whether it still leads, and a listener without memory.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
};

use futures::FutureExt as _;
use http::{StatusCode, header};
use quota_core::decide::{Policy, QuotaChange};
use quota_journal::{Batch, Durable, Error, Journal};
use quota_semantics::{quota::spec::Spec, uid::Uid};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::ServiceExt as _;

use super::*;
use crate::{
    config::Config,
    intake::NoSources,
    metrics::Listener,
    routes::{self, with_state},
    server::{BodyBudget, Options, Peer, serve_stream},
    writer::{self, Threads, Watermark},
};

/// A journal that accepts everything.
#[derive(Default)]
struct Memory {
    last: u64,
}

impl Journal for Memory {
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        self.last = batch.last_sequence();
        Ok(())
    }

    fn sync(&mut self) -> Result<Durable, Error> {
        Ok(Durable { sequence: self.last, ..Durable::NOTHING })
    }
}

const REVIEW: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{
    "uid":"r-1","kind":{"group":"","version":"v1","kind":"Pod"},
    "resource":{"group":"","version":"v1","resource":"pods"},"name":"a","namespace":"team-a","operation":"CREATE",
    "userInfo":{"username":"jane"},"object":OBJECT}}"#;

const POD: &str = r#"{"metadata":{"name":"a","uid":"u-1"},"spec":{"containers":[{"name":"c"}]}}"#;

fn ledger() -> (Ledger, Threads<Memory>) {
    let options = writer::Options { policy: Policy::default(), queue: 8, max_batch_entries: 8 };
    writer::start(
        quota_core::state::State::default(),
        Memory::default(),
        Durable::NOTHING,
        Arc::new(Watermark::without_sources()),
        options,
        |error| panic!("{error}"),
    )
    .unwrap()
}

fn rules() -> Rules {
    Rules {
        charging: Charging::default(),
        warn_ratio: 0.9,
        allow_when_behind: false,
        request_timeout: Duration::from_secs(10),
    }
}

fn router(ledger: &Ledger) -> axum::Router {
    let hook = Hook::new(ledger.clone(), Arc::new(NoSources), rules());
    routes::router(with_state(routes(), &hook), routes::Rules::default())
}

/// An error would let the object in wherever the webhook's `failurePolicy` is `Ignore`.
#[tokio::test]
async fn a_review_that_other_bodies_leave_no_room_for_is_denied() {
    let (ledger, threads) = ledger();
    let limit = |context: &mut DecisionContext<'_>| {
        let transaction = &mut context.transaction;
        let hard = [("pods".into(), "1".parse().unwrap())];
        let change = QuotaChange {
            namespace: "team-a".into(),
            name: "q".into(),
            fresh_uid: Uid::new("q").unwrap(),
            spec: Spec { hard: hard.into_iter().collect(), ..Spec::default() },
            metadata: Box::default(),
            precondition: None,
        };
        let events = decide::set_quota(transaction.state(), transaction.now(), &change).unwrap();
        transaction.record(&Actor::named("test"), events);
    };
    ledger.decide(limit).await.unwrap();
    let (mut client, theirs) = tokio::io::duplex(1 << 10);
    let options = Options {
        budget: BodyBudget::new(0),
        ..Options::new(Listener::Admission, &Config::default())
    };
    let peer = Peer { address: SocketAddr::from(([127, 0, 0, 1], 1)), names: Arc::new([]) };
    tokio::spawn(serve_stream(theirs, peer, router(&ledger), options));
    let mut send = async |padding: usize| -> Value {
        let pod = POD.replace("spec", &format!("{}\":1,\"spec", "x".repeat(padding)));
        let review = REVIEW.replace("OBJECT", &pod);
        let head = format!(
            "POST {ROUTE} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            review.len()
        );
        client.write_all((head + &review).as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        loop {
            answer.push(client.read_u8().await.unwrap());
            let text = std::str::from_utf8(&answer).unwrap();
            let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
            if let Some(Ok(review)) = body.map(serde_json::from_str::<Value>) {
                assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
                return review["response"].clone();
            }
        }
    };
    for padding in [17_000, 1 << 20, 9 << 20] {
        let denied = send(padding).await;
        let code = if padding > BODY_BYTES_MAX { 413 } else { 429 };
        assert_eq!(denied["allowed"], false, "{denied}");
        assert_eq!(denied["status"]["code"], code, "{denied}");
    }
    // For a small review there is always room.
    let admitted = send(15_000).await;
    assert_eq!(admitted["allowed"], true, "{admitted}");
    ledger.close();
    threads.join().unwrap();
}

/// A larger answer could be refused for lack of memory, although the reservation was made.
#[tokio::test]
async fn an_answer_is_small_whatever_the_notices_are() {
    let notice = |audience| decide::Notice {
        quota: "q".into(),
        kind: quota_semantics::admission::LimitKind::ResourceQuota,
        audience,
        message: "ä".repeat(5000),
    };
    let notices = |count| {
        use decide::Audience::{Auditors, Caller};
        [Auditors, Caller].into_iter().cycle().take(count).map(notice).collect()
    };
    let body = REVIEW.replace("OBJECT", POD);
    let review = wire::read(body.as_bytes()).unwrap();
    let decided = Decided {
        outcome: Ok(decide::Decision { notices: notices(2000), ..decide::Decision::default() }),
        sequence: 1,
        hold: None,
    };
    let answer = respond(&review, "a", true, &decided, &rules(), &AnnotationKey::new());
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(body.len() < 16 << 10, "{}", body.len());
    let answer: Value = serde_json::from_slice(&body).unwrap();
    let warnings = answer["response"]["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 16);
    assert_eq!(warnings[15], "986 more warnings were left out");
    let passed = answer["response"]["auditAnnotations"]["passed"].as_str().unwrap();
    assert!(passed.len() <= 4097, "{}", passed.len());
}

/// Another leader may have set a quota, of which this node has not heard.
#[tokio::test]
async fn a_leader_that_is_cut_off_does_not_take_a_namespace_for_unlimited() {
    let (ledger, threads) = ledger();
    let leads = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&leads);
    ledger.confirm_reads_by(move || {
        let confirmed = match switch.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(Unavailable::NotLeader),
        };
        std::future::ready(confirmed).boxed()
    });
    let router = router(&ledger);
    let send = async |object: &str| {
        let body = Body::from(REVIEW.replace("OBJECT", object));
        let request = Request::post(ROUTE)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .unwrap();
        router.clone().oneshot(request).await.unwrap().status()
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
