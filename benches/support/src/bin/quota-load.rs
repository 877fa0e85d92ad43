//! `quota-load`: measures reservations and releases, or pushed events, per second and their latency on a running daemon.
//!
//! Each namespace of the run gets a quota that limits the reserved resources and is never reached. Prints one JSON
//! object. Every counted response was sent after its entry was durable. With `--rate` a request that found no free
//! connection counts from its due time, so a pause of the daemon shows in the latency of all delayed requests.

use std::{
    collections::BTreeMap,
    error::Error,
    net::ToSocketAddrs as _,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use hdrhistogram::Histogram;
use quota_bench::load::{Events, Kind, Plan, Reservations, Tally};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// The name of the quota in each namespace.
const QUOTA: &str = "quota-load";

/// A limit that no measurement reaches.
const HARD: &str = "1P";

/// Quotas that are set at the same time.
const QUOTAS_AT_ONCE: usize = 16;

/// How long responses are awaited after the end.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Parser)]
#[command(about = "Measures a running quotad, which should have a data directory of its own")]
struct Arguments {
    /// The daemon; only http.
    #[arg(long, default_value = "http://127.0.0.1:8480")]
    server: String,
    /// A file with the bearer token.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// The prefix of the namespaces: NAME-0, NAME-1, …
    #[arg(short, long, value_name = "NAME", default_value = "quota-load")]
    namespace: String,
    /// The number of namespaces over which requests are spread.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    namespaces: u32,
    /// Connections, each with one request at a time.
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// The duration of the measurement, in milliseconds.
    #[arg(short, long, value_name = "MS", default_value = "10000", value_parser = milliseconds)]
    duration: Duration,
    /// The duration of the warm-up before it, in milliseconds.
    #[arg(long, value_name = "MS", default_value = "2000", value_parser = milliseconds)]
    warmup: Duration,
    /// Requests per second, regardless of response times. Default: each connection asks again after a response.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Reservations, or events, per request.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1000))]
    batch: u16,
    /// The percentage of reservations to release; the others are superseded by the next one for the same name.
    #[arg(long, value_name = "PERCENT", default_value = "100", value_parser = clap::value_parser!(u8).range(..=100))]
    release: u8,
    /// The resources to reserve.
    #[arg(
        long,
        value_name = "RESOURCE=QUANTITY,…",
        default_value = "pods=1,requests.cpu=100m,requests.memory=128Mi"
    )]
    resources: String,
    /// The lifetime of reservations that are not released. Default: the daemon's.
    #[arg(long)]
    ttl: Option<String>,
    /// Push events of objects instead of reserving.
    #[arg(long)]
    events: bool,
    /// Sending threads. Default: half of the processors.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix("ms").unwrap_or(text).parse();
    number.map(Duration::from_millis).map_err(|_| "not a number of milliseconds".to_owned())
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(report) => {
            println!("{report:#}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("quota-load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<Value, Box<dyn Error>> {
    let target = Target::new(arguments)?;
    let namespaces: Vec<_> = (0..arguments.namespaces)
        .map(|number| format!("{}-{number}", arguments.namespace))
        .collect();
    let resources: Map<_, _> = arguments
        .resources
        .split(',')
        .map(|part| {
            part.split_once('=').ok_or_else(|| format!("{part:?} is not RESOURCE=QUANTITY"))
        })
        .map(|pair| pair.map(|(name, quantity)| (name.to_owned(), quantity.into())))
        .collect::<Result<_, _>>()?;
    let hard: Map<_, _> = resources.keys().map(|name| (name.clone(), HARD.into())).collect();
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": QUOTA}, "spec": {"hard": hard},
    })
    .to_string();
    target.each_quota(&namespaces, |url| target.send(ureq::put(url), Some(&quota)))?;
    let tally = run(arguments, &target, namespaces.clone(), Value::from(resources).to_string())?;
    target.each_quota(&namespaces, |url| target.send(ureq::delete(url).force_send_body(), None))?;
    if tally.operations() == 0 {
        return Err(format!("nothing was carried out: {:?}", tally.statuses).into());
    }
    Ok(report(arguments, &tally))
}

/// The server, in the form that the load generator needs.
struct Target {
    address: std::net::SocketAddr,
    server: String,
    headers: String,
    authorization: Option<String>,
}

impl Target {
    fn new(arguments: &Arguments) -> Result<Self, Box<dyn Error>> {
        let server = arguments.server.trim_end_matches('/');
        let authority = server.strip_prefix("http://").ok_or("--server: only http is supported")?;
        let address =
            authority.to_socket_addrs()?.next().ok_or("--server: the name has no address")?;
        let token = arguments.token_file.as_ref().map(std::fs::read_to_string).transpose()?;
        let authorization = token.map(|token| format!("Bearer {}", token.trim()));
        let line = authorization.iter().map(|value| format!("authorization: {value}\r\n"));
        let headers = format!("host: {authority}\r\n{}", line.collect::<String>());
        Ok(Self { address, server: server.to_owned(), headers, authorization })
    }

    fn send(
        &self,
        request: ureq::RequestBuilder<ureq::typestate::WithBody>,
        body: Option<&str>,
    ) -> Result<(), ureq::Error> {
        let request = match &self.authorization {
            Some(value) => request.header("authorization", value),
            None => request,
        };
        match body {
            Some(body) => request.header("content-type", "application/json").send(body)?,
            None => request.send_empty()?,
        };
        Ok(())
    }

    /// Sends a request about the quota of each namespace, several at a time, until the first failure.
    fn each_quota(
        &self,
        namespaces: &[String],
        send: impl Fn(&str) -> Result<(), ureq::Error> + Sync,
    ) -> Result<(), Box<dyn Error>> {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(namespace) = namespaces.get(next.fetch_add(1, Ordering::Relaxed)) {
                let url = format!("{}/v1/namespaces/{namespace}/quotas/{QUOTA}", self.server);
                send(&url).map_err(|error| format!("{url}: {error}"))?;
            }
            Ok::<_, String>(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> =
                (0..QUOTAS_AT_ONCE.min(namespaces.len())).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().map_err(|_| "a worker panicked".to_owned())?)
        })?;
        Ok(())
    }
}

fn run(
    arguments: &Arguments,
    target: &Target,
    namespaces: Vec<String>,
    resources: String,
) -> std::io::Result<Tally> {
    let connections = arguments.connections as usize;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan {
        server: target.address,
        connections,
        threads: arguments.threads.unwrap_or(processors / 2).clamp(1, connections),
        warmup: arguments.warmup,
        duration: arguments.duration,
        rate: arguments.rate,
        patience: PATIENCE,
    };
    let (headers, base, batch) =
        (target.headers.clone(), String::new(), usize::from(arguments.batch));
    // Differs from run to run: a uid that was used once is not granted again.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    let stop = CancellationToken::new();
    if arguments.events {
        let events = Arc::new(Events { headers, base, namespaces, resources, batch, seed });
        return quota_bench::load::run(&plan, &stop, |connection| events.talk(connection));
    }
    let reservations = Arc::new(Reservations {
        headers,
        base,
        namespaces,
        resources,
        ttl: arguments.ttl.clone(),
        batch,
        release_percent: usize::from(arguments.release),
        connections,
        seed,
    });
    quota_bench::load::run(&plan, &stop, |connection| reservations.talk(connection))
}

fn report(arguments: &Arguments, tally: &Tally) -> Value {
    let seconds = arguments.duration.as_secs_f64();
    let part = |operations: u64, latency: &Histogram<u64>| {
        let us = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
        json!({
            "operations": operations,
            "operationsPerSecond": (operations as f64 / seconds).round(),
            "latency": {
                "requests": latency.len(),
                "minUs": us(latency.min()),
                "p50Us": us(latency.value_at_quantile(0.5)),
                "p90Us": us(latency.value_at_quantile(0.9)),
                "p99Us": us(latency.value_at_quantile(0.99)),
                "p999Us": us(latency.value_at_quantile(0.999)),
                "maxUs": us(latency.max()),
            },
        })
    };
    let kinds = Kind::ALL.into_iter().map(|kind| (kind.name(), tally.of(kind)));
    let kinds = kinds.filter(|(_, share)| !share.latency.is_empty());
    let by_kind: BTreeMap<_, _> =
        kinds.map(|(name, share)| (name, part(share.operations, &share.latency))).collect();
    let mut report = part(tally.operations(), &tally.latency());
    let more = json!({
        "server": arguments.server,
        "connections": arguments.connections,
        "namespaces": arguments.namespaces,
        "batch": arguments.batch,
        "seconds": seconds,
        "byKind": by_kind,
        "denied": tally.denied,
        "errors": tally.errors(),
        "unanswered": tally.failures,
        "statuses": tally.statuses,
        "lateP99Us": tally.late.value_at_quantile(0.99) as f64 / 1000.0,
    });
    if let (Some(report), Value::Object(more)) = (report.as_object_mut(), more) {
        report.extend(more);
    }
    report
}
