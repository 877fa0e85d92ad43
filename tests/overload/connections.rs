//! Too many connections, and slow ones.

use std::time::{Duration, Instant};

use super::{
    attack::{MIB, Target, many},
    client::{Client, RESERVATIONS, head, reservation},
};

/// What one connection may cost the daemon that sends nothing useful, in bytes: buffers, timers, its task.
const PER_CONNECTION: u64 = 48 * 1024;

/// Times that are too long to end a connection within a test.
const PATIENT: [&str; 4] = [
    "--limits.header-timeout=10m",
    "--limits.body-timeout=10m",
    "--limits.request-timeout=10m",
    "--limits.keep-alive=10m",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_connections_as_are_allowed_stay_small_and_leave_probes_alone() {
    let most = many();
    let limit = format!("--limits.connections={most}");
    let target = Target::start(&[&[limit.as_str()], &PATIENT[..]].concat()).await;
    target.serves_as_ever("before").await;
    let before = target.memory();
    let mut full = Vec::new();
    for round in 0..4 {
        let held = occupy(&target, round + 2, most).await;
        full.push(target.memory());
        // One more is refused at once, and costs nothing.
        let refused = target.hits("limits.connections").await;
        for _ in 0..100 {
            let mut late = Client::connect(&target.api).await.unwrap();
            if let Some(answer) = late.answer().await {
                assert_eq!(answer.status, 503);
                assert!(answer.may_be_repeated(), "{answer:?}");
                assert!(answer.body.contains("\"reason\":\"Overloaded\""), "{answer:?}");
            }
        }
        let refused = target.hits("limits.connections").await - refused;
        assert_eq!(refused, 100);
        target.answers_probes().await;
        assert!(held.iter().all(Client::is_open), "round {round}");
        drop(held);
        until_served(&target).await;
        target.serves_as_ever(&format!("after-{round}")).await;
    }
    let after = target.memory();
    println!(
        "{most} connections: memory {} MiB before, {:?} MiB each time they are open, {} MiB after; {} bytes each",
        before / MIB,
        full.iter().map(|bytes| bytes / MIB).collect::<Vec<_>>(),
        after / MIB,
        full[0].saturating_sub(before) / most as u64,
    );
    let bound = before + most as u64 * PER_CONNECTION + 16 * MIB;
    assert!(full.iter().all(|held| *held <= bound), "{full:?} of {bound}");
    // No storm leaves anything behind for the next one to come on top of.
    let most = full[0] + full[0] / 8;
    assert!(full.iter().all(|held| *held <= most), "{full:?}");
    assert!(after <= bound, "{after} of {bound}");
}

/// Opens connections of all useless kinds: silent, with half a head, with half a body, idle after a request.
async fn occupy(target: &Target, host: u8, most: usize) -> Vec<Client> {
    let mut held = Vec::with_capacity(most);
    for number in 0..most {
        let mut client = Client::connect_from(host, &target.api).await.unwrap();
        match number % 4 {
            0 => {}
            1 => {
                client
                    .send("GET /v1/quotas HTTP/1.1\r\nhost: localhost\r\nx-half: ")
                    .await
                    .unwrap();
            }
            2 => {
                let half = head("POST", RESERVATIONS, 2000) + "{\"reservedBy\":";
                client.send(half).await.unwrap();
            }
            _ => assert_eq!(client.get("/version").await.status, 200),
        }
        held.push(client);
    }
    held
}

/// The daemon sees a moment later that connections have ended.
async fn until_served(target: &Target) {
    loop {
        let mut client = target.client().await;
        if let Some(answer) = client.request("GET", "/version", "").await
            && answer.status == 200
        {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_slow_senders_do_not_hold_up_the_others() {
    const SLOW: usize = 1000;
    const ROUNDS: usize = 25;
    many();
    let target = Target::start(&PATIENT).await;
    let alone = serve(&target, "alone", ROUNDS).await;
    let body = reservation("slow");
    let request = head("POST", RESERVATIONS, body.len()) + &body;
    let mut slow = Vec::with_capacity(SLOW);
    for _ in 0..SLOW {
        slow.push(Client::connect_from(6, &target.api).await.unwrap());
    }
    let (stop, mut stopped) = tokio::sync::watch::channel(());
    let dripping = tokio::spawn(async move {
        // Never the last byte, so that none is ever answered.
        for byte in request.as_bytes()[..request.len() - 1].iter().cycle() {
            for client in &mut slow {
                if stopped.has_changed().unwrap_or(true) {
                    return slow;
                }
                let _ = client.send([*byte]).await;
            }
            tokio::select! {
                _ = stopped.changed() => return slow,
                () = tokio::time::sleep(Duration::from_millis(50)) => {}
            }
        }
        slow
    });
    let beside = serve(&target, "beside", ROUNDS).await;
    drop(stop);
    let slow = dripping.await.unwrap();
    let open = slow.iter().filter(|client| client.is_open()).count();
    println!(
        "median of a reservation and its release: {alone:?} alone, {beside:?} beside {open} slow senders"
    );
    assert!(open >= SLOW * 9 / 10, "only {open} of {SLOW} slow senders were there");
    target.serves_as_ever("after").await;
}

/// Eight clients do their work, all of it with success; tells the median of the times.
async fn serve(target: &Target, name: &str, rounds: usize) -> Duration {
    let mut clients = Vec::new();
    for number in 0..8 {
        let mut client = target.client().await;
        let name = format!("{name}-{number}");
        clients.push(tokio::spawn(async move {
            let mut times = Vec::new();
            for round in 0..rounds {
                let began = Instant::now();
                client.reserves(&format!("{name}-{round}")).await;
                times.push(began.elapsed());
            }
            times
        }));
    }
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.await.unwrap());
    }
    times.sort();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_senders_are_given_up() {
    let target = Target::start(&[
        "--limits.header-timeout=200ms",
        "--limits.body-timeout=200ms",
        "--limits.request-timeout=1s",
        "--limits.keep-alive=200ms",
    ])
    .await;
    let mut held = occupy(&target, 7, 400).await;
    for client in &mut held {
        // With an answer (408) or without, every one of them ends.
        while client.answer().await.is_some() {}
    }
    assert!(target.hits("limits.header_timeout").await >= 100);
    assert_eq!(target.hits("limits.body_timeout").await, 100);
    target.serves_as_ever("after").await;
}
