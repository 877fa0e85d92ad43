//! More valid requests than can be decided.

use std::time::{Duration, Instant};

use super::{
    attack::{MIB, Target},
    client::{Answer, Client, RESERVATIONS, reservation},
};

/// Clients that all ask at once.
const CLIENTS: usize = 200;

fn review(uid: &str) -> String {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"{uid}","kind":{{"group":"","version":"v1","kind":"Pod"}},"resource":{{"group":"","version":"v1","resource":"pods"}},"name":"{uid}","namespace":"a","operation":"CREATE","object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{uid}","namespace":"a","uid":"{uid}"}},"spec":{{"containers":[{{"name":"c"}}]}}}}}}}}"#
    )
}

/// What became of a request, and after how long.
struct Outcome {
    answer: Answer,
    took: Duration,
    is_review: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_sheds_at_once_and_only_the_webhook_is_not_told_to_come_back() {
    let target = Target::start(&["--limits.queue=1"]).await;
    target.serves_as_ever("before").await;
    let before = target.memory();
    let mut outcomes = Vec::new();
    let mut round = 0;
    let shed = |outcome: &Outcome| outcome.answer.status == 503;
    // A flood that overflows nothing shows nothing.
    while round < 5 || (round < 50 && outcomes.iter().filter(|outcome| shed(outcome)).count() < 100)
    {
        outcomes.extend(flood(&target, round).await);
        round += 1;
    }
    let hits = target.hits("limits.queue").await;
    let (shed, served): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(shed);
    assert!(shed.len() >= 100, "only {} of {round} rounds were shed", shed.len());
    assert_eq!(hits, shed.len() as u64);
    for outcome in &shed {
        assert!(outcome.answer.body.contains("\"reason\":\"Overloaded\""), "{:?}", outcome.answer);
        assert_eq!(outcome.answer.may_be_repeated(), !outcome.is_review, "{:?}", outcome.answer);
    }
    for Outcome { answer, is_review, .. } in &served {
        assert_eq!(answer.status, if *is_review { 200 } else { 201 }, "{answer:?}");
    }
    assert!(!served.is_empty());
    let (quick, slow) = (median(&shed), median(&served));
    let after = target.memory();
    println!(
        "{CLIENTS} clients at a queue of 1: {} decided (median {slow:?}), {} shed (median {quick:?}); memory {} MiB, then {} MiB",
        served.len(),
        shed.len(),
        before / MIB,
        after / MIB,
    );
    // Who is shed waits for nothing that the others wait for. (Both wait for the processor.)
    assert!(quick <= slow * 2, "{quick:?} against {slow:?}");
    assert!(after <= before + 64 * MIB, "{before} and then {after}");
    target.serves_as_ever("after").await;
}

/// Every client asks once, all at the same time.
async fn flood(target: &Target, round: usize) -> Vec<Outcome> {
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        clients.push((number, target.client().await));
    }
    let start = std::sync::Arc::new(tokio::sync::Barrier::new(CLIENTS));
    let asking = clients.into_iter().map(|(number, client)| {
        let start = start.clone();
        tokio::spawn(async move {
            start.wait().await;
            ask(client, &format!("flood-{round}-{number}"), number % 2 == 0).await
        })
    });
    let mut outcomes = Vec::new();
    for answer in asking.collect::<Vec<_>>() {
        outcomes.push(answer.await.unwrap());
    }
    outcomes
}

async fn ask(mut client: Client, uid: &str, is_review: bool) -> Outcome {
    let began = Instant::now();
    let answer = match is_review {
        true => client.post("/admit", &review(uid)).await,
        false => client.post(RESERVATIONS, &reservation(uid)).await,
    };
    Outcome { answer, took: began.elapsed(), is_review }
}

fn median(outcomes: &[Outcome]) -> Duration {
    let mut times: Vec<_> = outcomes.iter().map(|outcome| outcome.took).collect();
    times.sort();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_are_answered_in_order_and_pile_up_nowhere() {
    const REQUESTS: usize = 2000;
    let target = Target::start(&[]).await;
    let before = target.memory();
    let mut client = target.client().await;
    let request = "GET /v1/namespaces/a/usage HTTP/1.1\r\nhost: localhost\r\nx-request-id: ";
    // All of them would be more than the connection takes in before it is read from.
    let (mut from, mut to) = client.stream.split();
    let sending = async {
        for number in 0..REQUESTS {
            let text = format!("{request}{number}\r\n\r\n");
            tokio::io::AsyncWriteExt::write_all(&mut to, text.as_bytes()).await.unwrap();
        }
    };
    let reading = async {
        let mut received = String::new();
        let mut answered = 0;
        while answered < REQUESTS {
            let mut piece = [0; 4096];
            let read = tokio::io::AsyncReadExt::read(&mut from, &mut piece).await.unwrap();
            assert!(read > 0, "it ended after {answered} answers");
            received.push_str(std::str::from_utf8(&piece[..read]).unwrap());
            while let Some(place) = received.find(&format!("x-request-id: {answered}\r\n")) {
                received.drain(..place);
                answered += 1;
            }
        }
    };
    tokio::join!(sending, reading);
    assert!(target.memory() <= before + 32 * MIB);
    target.serves_as_ever("after").await;
}
