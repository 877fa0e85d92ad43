//! `bench`: measures the performance of a daemon on this machine.

mod report;
mod setup;

use std::{
    net::{SocketAddr, ToSocketAddrs as _},
    process,
    sync::Arc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::Uri;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::{report::Report, setup::Quotas};
use super::{
    args::{Bench, Global},
    client::Client,
    failure::{Failure, Outcome},
    output::{Output, note},
    session::Scope,
};
use quota_load::{Events, Plan, Reservations, Tally};

/// The prefix of the namespaces of a measurement.
const NAMESPACE: &str = "quotactl-bench";

/// Runs a measurement, and prints the result.
pub(super) fn run(
    bench: &Bench,
    global: &Global,
    client: &Client,
    output: &Output,
    scope: &Scope,
) -> Outcome {
    if bench.batch > 1 && bench.release.is_some() {
        return Err(Failure::usage(
            "--release is for single reservations: there is no batch of releases",
        ));
    }
    let target = Target::of(client)?;
    let prefix = scope.given.as_deref().unwrap_or(NAMESPACE);
    let namespaces: Vec<_> = (0..bench.namespaces)
        .map(|number| format!("{prefix}-{number}"))
        .collect();
    let plan = plan(bench, global, target.address);
    let stop = stop_on_interrupt()?;
    let quotas = Quotas::set(client, &namespaces, &bench.resources, &stop)?;
    let measured = measure(bench, &plan, &target, namespaces.clone(), &stop);
    // The result comes first: whatever becomes of the quotas, it is there.
    let reported = measured
        .map_err(|error| {
            Failure::general(format!("{}: {error}", client.server()))
                .hint("it acts as many clients: look at limits.connections, and at `ulimit -n`")
        })
        .and_then(|tally| {
            if stop.is_cancelled() {
                return Err(Failure::general("interrupted"));
            }
            let report = Report::new(bench, &plan, client.server(), &tally);
            report.print(output)?;
            judge(&tally)
        });
    let removed = match bench.keep {
        true => Ok(()),
        false => quotas.remove(),
    };
    match (reported, removed) {
        (Err(failure), Err(left)) => {
            note(left.to_string());
            Err(failure)
        }
        (reported, removed) => reported.and(removed),
    }
}

/// Fails if nothing was carried out. Refusals of a part are a result, and are printed.
fn judge(tally: &Tally) -> Outcome {
    if tally.operations() == 0 {
        return Err(Failure::general("nothing was carried out")
            .hint("the statuses say why; quotactl reserve shows the whole answer"));
    }
    if tally.errors() > 0 {
        note(format!(
            "warning: {} requests failed: see the statuses",
            tally.errors()
        ));
    }
    if tally.denied > 0 {
        note(format!(
            "warning: {} reservations were denied: another quota holds them, or a bound of what may be pending",
            tally.denied
        ));
    }
    Ok(())
}

fn plan(bench: &Bench, global: &Global, address: SocketAddr) -> Plan {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    Plan {
        server: address,
        connections: bench.connections,
        threads: bench
            .threads
            .unwrap_or(processors / 2)
            .clamp(1, bench.connections),
        warmup: bench.warmup.get(),
        duration: bench.duration.get(),
        rate: bench.rate,
        patience: global.timeout.get(),
    }
}

/// The server, in the form that the load generator needs.
struct Target {
    address: SocketAddr,
    headers: String,
    base: String,
}

impl Target {
    fn of(client: &Client) -> Outcome<Self> {
        let server = client.server();
        let wrong = |why: &str| Failure::usage(format!("--server {server}: {why}"));
        let uri: Uri = server.parse().map_err(|_| wrong("not a URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(wrong("bench supports only http")
                .hint("measure on the daemon's machine, where listen can be plain"));
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let address = (host, uri.port_u16().unwrap_or(80))
            .to_socket_addrs()
            .map_err(|error| wrong(&error.to_string()))?
            .next()
            .ok_or_else(|| wrong("the name has no address"))?;
        let authority = uri.authority().map_or("", http::uri::Authority::as_str);
        let mut headers = format!("host: {authority}\r\n");
        if let Some(authorization) = client.authorization()? {
            headers.push_str(&format!("authorization: {authorization}\r\n"));
        }
        Ok(Self {
            address,
            headers,
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

fn measure(
    bench: &Bench,
    plan: &Plan,
    target: &Target,
    namespaces: Vec<String>,
    stop: &CancellationToken,
) -> std::io::Result<Tally> {
    let headers = target.headers.clone();
    let base = target.base.clone();
    let resources = serde_json::to_string(&bench.resources)?;
    let batch = usize::from(bench.batch);
    if bench.events {
        let events = Arc::new(Events {
            headers,
            base,
            namespaces,
            resources,
            batch,
            seed: seed(),
        });
        return quota_load::run(plan, stop, |connection| events.talk(connection));
    }
    let reservations = Arc::new(Reservations {
        headers,
        base,
        namespaces,
        resources,
        ttl: bench.ttl.map(|ttl| ttl.to_string()),
        batch,
        release_percent: usize::from(bench.release.unwrap_or(100)),
        connections: bench.connections,
        seed: seed(),
    });
    quota_load::run(plan, stop, |connection| reservations.talk(connection))
}

/// The seed of uids, which differs from run to run: a uid that was used once is not granted again.
fn seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = since.unwrap_or(Duration::ZERO).as_nanos();
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}

/// The exit code of an interrupted program, by the convention of shells.
const INTERRUPTED: i32 = 130;

/// Stops the measurement at an interrupt, and the clean-up at another one.
fn stop_on_interrupt() -> Outcome<CancellationToken> {
    let stop = CancellationToken::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Listens from here on, so that no interrupt ends the program before it has tidied up.
    let mut interrupts = {
        let _entered = runtime.enter();
        signal(SignalKind::interrupt())?
    };
    let cancelled = stop.clone();
    thread::spawn(move || {
        runtime.block_on(async {
            interrupts.recv().await;
            cancelled.cancel();
            note("interrupted: tidying up");
            interrupts.recv().await;
            process::exit(INTERRUPTED);
        });
    });
    Ok(stop)
}
