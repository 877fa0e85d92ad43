//! Streams whose messages have a lifetime of their own, and streams that do not keep what was consumed.

use async_nats::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::start;
use crate::support::{cluster::durable_program, nats::Server, quotad::Quotad, until};

/// Creates the stream with further settings.
async fn create_stream(client: &Client, settings: Value) {
    let mut config = json!({
        "name": "OBJECTS", "subjects": ["quota.objects.>"], "storage": "file", "num_replicas": 1,
        "retention": "limits", "discard": "old", "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0,
    });
    config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let answer = request(client, "CREATE", &config).await;
    assert!(answer["error"].is_null(), "{answer}");
}

async fn request(client: &Client, what: &str, body: &Value) -> Value {
    let subject = format!("$JS.API.STREAM.{what}.OBJECTS");
    let answer = client.request(subject, body.to_string().into()).await.unwrap();
    serde_json::from_slice(&answer.payload).unwrap()
}

async fn last_sequence(client: &Client) -> u64 {
    let info = request(client, "INFO", &json!({})).await;
    info["state"]["last_seq"].as_u64().unwrap()
}

async fn publish(client: &Client, payload: &str, lives: Option<&str>) {
    let mut headers = async_nats::HeaderMap::new();
    if let Some(lives) = lives {
        headers.insert("Nats-TTL", lives);
    }
    let subject = match lives {
        Some(_) => "quota.objects.here.short",
        None => "quota.objects.here",
    };
    let context = async_nats::jetstream::new(client.clone());
    let sent = context.publish_with_headers(subject, headers, payload.to_owned().into());
    sent.await.unwrap().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_marker_of_a_deleted_subject_is_no_event_and_spoils_no_relist() {
    let server = Server::start_program(&durable_program());
    let client = async_nats::connect(server.url()).await.unwrap();
    let lives = json!({"allow_msg_ttl": true, "subject_delete_marker_ttl": 1_000_000_000_u64});
    create_stream(&client, lives).await;
    let directory = TempDir::new().unwrap();
    let quotad = start(directory.path(), &server);
    let widget = |uid: &str| {
        format!(
            r#"{{"type":"ADDED","namespace":"team-a","resource":"widgets.example.com","name":"{uid}","uid":"{uid}"}}"#
        )
    };
    publish(&client, &widget("vanished"), None).await;
    publish(&client, r#"{"type":"RELIST_BEGIN","resource":"widgets.example.com"}"#, None).await;
    publish(&client, &widget("short"), Some("1s")).await;
    let mut last = 3;
    while last < 4 {
        last = last_sequence(&client).await;
    }
    publish(&client, r#"{"type":"RELIST_END","resource":"widgets.example.com"}"#, None).await;
    until("the relist has ended what was not listed", || {
        let usage = quotad.get("/v1/namespaces/team-a/usage");
        (usage["resources"][0]["used"] == "1").then_some(())
    })
    .await;
    assert_eq!(quotad.list("/v1/dead-letters").0, Vec::<Value>::new());
    quotad.stop();
}

/// What `/readyz` says once it names the retention.
async fn refused(quotad: &Quotad) -> (u16, String) {
    until("it names the retention", || {
        let answer = quotad.ask_admin("/readyz");
        answer.1.contains("retention").then_some(answer)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_does_not_keep_what_was_consumed_is_refused() {
    let server = Server::start();
    let client = async_nats::connect(server.url()).await.unwrap();
    let directory = TempDir::new().unwrap();
    let mut quotad = None;
    for retention in ["workqueue", "interest"] {
        create_stream(&client, json!({"retention": retention})).await;
        let quotad = quotad.get_or_insert_with(|| {
            let nats = format!("--nats.url={}", server.url());
            let arguments = [
                &*nats,
                "--nats.create_stream=false",
                "--nats.poll_interval=50ms",
                "--nats.max_backoff=200ms",
            ];
            Quotad::start(directory.path(), &arguments)
        });
        let (status, text) = refused(quotad).await;
        assert_eq!(status, 503);
        let expected =
            format!("the retention of the stream OBJECTS is {retention}; it must be limits");
        until("the reason is shown", || {
            quotad.ask_admin("/readyz").1.contains(&expected).then_some(())
        })
        .await;
        assert!(text.contains("not caught up"), "{text}");
        let deleted = request(&client, "DELETE", &json!({})).await;
        assert_eq!(deleted["success"], true);
    }
    create_stream(&client, json!({})).await;
    let quotad = quotad.unwrap();
    until("it is ready", || quotad.is_ready().then_some(())).await;
    quotad.stop();
}
