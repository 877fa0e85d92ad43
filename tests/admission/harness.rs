//! A ledger, the webhook before it, and reviews to send.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use parking_lot::{Condvar, Mutex};
use quota_core::{
    decide::{self, Policy, QuotaChange, Sighting, Verdict},
    event::{Actor, Observed},
};
use quota_journal::{Batch, Durable, FileJournal, Journal};
use quota_semantics::{
    Name,
    admission::Charging,
    object::{GroupResource, NoContext},
    quota::Spec,
    uid::Uid,
};
use quotad::{
    admission::{self, Hook, Rules},
    config::Config,
    intake::Sources,
    now,
    recovery::recover,
    routes::{self, router, with_state},
    writer::{self, Ledger, Threads, Watermark},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

pub(crate) struct World {
    pub(crate) ledger: Ledger,
    pub(crate) router: axum::Router,
    rules: Rules,
    version: AtomicU64,
    /// While it is shut, nothing becomes durable.
    pub(crate) gate: Arc<Gate>,
    _threads: Threads<Gated>,
    _directory: TempDir,
}

/// What batches have to pass.
#[derive(Default)]
pub(crate) struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub(crate) fn shut(&self) {
        *self.shut.lock() = true;
    }

    pub(crate) fn open(&self) {
        *self.shut.lock() = false;
        self.opened.notify_all();
    }

    fn pass(&self) {
        self.opened.wait_while(&mut self.shut.lock(), |shut| *shut);
    }
}

/// A journal that can be held up.
pub(crate) struct Gated {
    journal: FileJournal,
    gate: Arc<Gate>,
}

impl Journal for Gated {
    fn append(&mut self, batch: Batch) -> Result<(), quota_journal::Error> {
        self.journal.append(batch)
    }

    fn sync(&mut self) -> Result<Durable, quota_journal::Error> {
        self.gate.pass();
        self.journal.sync()
    }
}

/// What the webhook answered.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: bool,
    pub(crate) body: Value,
}

impl Answered {
    pub(crate) fn allowed(&self) -> bool {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        self.body["response"]["allowed"].as_bool().unwrap()
    }

    pub(crate) fn message(&self) -> &str {
        assert!(!self.allowed(), "{self:?}");
        self.body["response"]["status"]["message"].as_str().unwrap()
    }

    pub(crate) fn code(&self) -> u64 {
        self.body["response"]["status"]["code"].as_u64().unwrap()
    }

    pub(crate) fn warnings(&self) -> Vec<&str> {
        let warnings = self.body["response"]["warnings"].as_array();
        let texts = warnings.map(|all| all.iter().map(|text| text.as_str().unwrap()).collect());
        texts.unwrap_or_default()
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.body["response"]["auditAnnotations"][key].as_str()
    }
}

pub(crate) const SPACIOUS: (usize, usize) = (64, 4096);

pub(crate) fn rules() -> Rules {
    Rules {
        charging: Charging::default(),
        warn_ratio: 0.9,
        allow_when_behind: false,
        request_timeout: Duration::from_secs(60),
    }
}

/// Sources that have been caught up with as soon as the watermark is known.
struct Watermarked(Ledger);

impl Sources for Watermarked {
    fn are_caught_up(&self) -> bool {
        self.0.watermark().is_known()
    }
    fn lag(&self) -> bool {
        false
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(rules(), Watermark::without_sources(), SPACIOUS)
    }

    pub(crate) fn charging(kinds: &[&str]) -> Self {
        let charging = Charging::new(kinds.iter().copied()).unwrap();
        Self::with(Rules { charging, ..rules() }, Watermark::without_sources(), SPACIOUS)
    }

    /// `room`: decisions that wait, entries of a batch.
    pub(crate) fn with(rules: Rules, watermark: Watermark, room: (usize, usize)) -> Self {
        Self::under(Policy::default(), rules, watermark, room)
    }

    pub(crate) fn under(
        policy: Policy,
        rules: Rules,
        watermark: Watermark,
        room: (usize, usize),
    ) -> Self {
        let directory = TempDir::new().unwrap();
        let config = Config { data_dir: directory.path().join("data"), ..Config::default() };
        let recovered = recover(&config, quota_journal::Throttle::default()).unwrap();
        let options = writer::Options { policy, queue: room.0, max_batch_entries: room.1 };
        let gate = Arc::new(Gate::default());
        let journal = Gated { journal: recovered.journal, gate: gate.clone() };
        let (ledger, threads) = writer::start(
            recovered.state,
            journal,
            recovered.durable,
            Arc::new(watermark),
            options,
            |error| panic!("{error}"),
        )
        .unwrap();
        Self {
            router: router(
                with_state(
                    admission::routes(),
                    &Hook::new(
                        ledger.clone(),
                        Arc::new(Watermarked(ledger.clone())),
                        rules.clone(),
                    ),
                ),
                routes::Rules::default(),
            ),
            ledger,
            rules,
            version: AtomicU64::new(1000),
            gate,
            _threads: threads,
            _directory: directory,
        }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.ledger.peek(|state| state.head().sequence)
    }

    pub(crate) async fn set_quota(&self, name: &str, hard: &[(&str, &str)]) {
        let hard: BTreeMap<_, _> = hard.iter().copied().collect();
        self.set_spec(name, json!({ "hard": hard })).await;
    }

    pub(crate) async fn set_spec(&self, name: &str, spec: Value) {
        let change = QuotaChange {
            namespace: "team-a".into(),
            name: name.into(),
            fresh_uid: Uid::new(name).unwrap(),
            spec: serde_json::from_value::<Spec>(spec).unwrap(),
            metadata: Box::default(),
            precondition: None,
        };
        let set = move |context: &mut writer::DecisionContext<'_>| {
            let transaction = &mut context.transaction;
            let events =
                decide::set_quota(transaction.state(), transaction.now(), &change).unwrap();
            transaction.record(&Actor::named("test"), events)
        };
        self.ledger.decide(set).await.unwrap();
    }

    /// The object of a review is seen as it is there, in a version newer than all before.
    pub(crate) async fn observe(&self, review: &Value, object: &str) {
        let resource = &review["request"]["resource"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let kind = GroupResource::new(&text(&resource["group"]), &text(&resource["resource"]));
        let json = review["request"][object].to_string();
        let object = self.rules.charging.read(&kind, json.as_bytes()).unwrap();
        let metadata = object.metadata();
        let observed = Observed {
            uid: Uid::new(&metadata.uid).unwrap(),
            namespace: metadata.namespace.clone(),
            resource: Name::from(kind.to_string()),
            name: metadata.name.as_str().into(),
            version: self.version.fetch_add(1, Ordering::Relaxed),
            footprint: self.rules.charging.footprint(&kind, &object, now(), &NoContext),
            lapse: None,
            ends_reservation: false,
        };
        let sighting = Sighting::Alive { object: Box::new(observed), quota: None };
        self.see(sighting).await;
    }

    pub(crate) async fn see(&self, sighting: Sighting) {
        let see = move |context: &mut writer::DecisionContext<'_>| {
            let transaction = &mut context.transaction;
            if let Verdict::Accepted(events) = decide::observe(transaction.state(), sighting) {
                transaction.record(&Actor::named("test"), events);
            }
        };
        self.ledger.decide(see).await.unwrap();
    }

    /// `used+reserved` of a limit.
    pub(crate) fn counted(&self, quota: &str, resource: &str) -> String {
        self.ledger.peek(|state| {
            let view = state.quota("team-a", quota).unwrap();
            let figure = view.figures.iter().find(|figure| figure.resource == resource).unwrap();
            format!("{}+{}", figure.used.clone().unwrap_or_default(), figure.reserved)
        })
    }

    pub(crate) async fn send(&self, review: &Value) -> Answered {
        self.post("/admit?timeout=10s", "application/json", review.to_string()).await
    }

    pub(crate) async fn post(&self, path: &str, media_type: &str, body: String) -> Answered {
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, media_type)
            .body(Body::from(body))
            .unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let retry_after = answer.headers().contains_key(header::RETRY_AFTER);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        Answered { status, retry_after, body: serde_json::from_slice(&body).unwrap_or_default() }
    }
}

/// A recorded review.
pub(crate) fn recorded(name: &str) -> Value {
    let path = format!("{}/tests/vectors/admissionreview/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The recorded creation of a pod, with another name and uid.
pub(crate) fn pod(name: &str) -> Value {
    let mut review = recorded("pod-create");
    review["request"]["name"] = json!(name);
    review["request"]["object"]["metadata"]["name"] = json!(name);
    review["request"]["object"]["metadata"]["uid"] = json!(format!("uid-of-{name}"));
    review
}
