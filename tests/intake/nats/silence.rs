//! A consumer that stands, answers, and delivers nothing.

use futures::StreamExt as _;

use super::*;
use crate::support::PATIENCE;

/// How often an idle consumer's stream is looked at without giving the consumer up for it: a busy server may take longer
/// than that to begin with a new one, and it would be given up for ever.
const PATIENT_LOOKS: usize = 3;

/// From now on the daemon's consumer waits for messages that never come. It is there, and its server says so.
async fn silence(context: &jetstream::Context) {
    let stream = context.get_stream(STREAM).await.unwrap();
    let mut consumers = stream.consumers();
    let consumer = consumers.next().await.unwrap().unwrap();
    assert!(consumers.next().await.is_none(), "the daemon has one");
    let config = jetstream::consumer::Config {
        name: Some(consumer.name),
        filter_subject: "quota.objects.nowhere".to_owned(),
        ..consumer.config
    };
    stream.update_consumer(config).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_stays_silent_is_made_anew_but_not_at_once() {
    let scene = Scene::new();
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    let client = async_nats::connect(scene.server.url()).await.unwrap();
    let mut requests = client.subscribe("$JS.API.>").await.unwrap();
    let context = jetstream::new(client);
    silence(&context).await;
    publish(&context, widgets(0..10)).await;
    daemon.until("all are consumed", |state| position(state) == 10).await;
    let mut looks = 0;
    let made_anew = async {
        while let Some(request) = requests.next().await {
            match request.subject.as_str() {
                "$JS.API.STREAM.MSG.GET.OBJECTS" => looks += 1,
                // Without a name: the daemon's.
                "$JS.API.CONSUMER.CREATE.OBJECTS" => return,
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, made_anew).await.unwrap();
    assert!(looks > PATIENT_LOOKS, "{looks}");
    assert!(daemon.recorded(gap).await.is_empty());
    daemon.stop().await;
}
