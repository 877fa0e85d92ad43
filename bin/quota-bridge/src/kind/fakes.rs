//! Fakes for tests of tasks: a cluster in memory, and a queue that nobody publishes.

use std::{num::NonZeroUsize, sync::Arc};

use quota_semantics::admission::Charging;
use quota_service::config::Period;
use quota_testkit::fake_api::{server, world::World};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};

use super::{Limited, Lists, Shared};
use crate::{
    config::Config,
    kubernetes::{Access, Client},
    line::RelistIds,
    publisher::{Line, Queue, Status},
    watermarks::Watermarks,
};

/// The parts of a bridge that leads, between a new cluster and a queue. Nothing happens by itself within an hour.
pub(crate) async fn shared() -> (World, Shared, mpsc::Receiver<Line>) {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(server::serve(listener, world.clone()));
    let (queue, lines) = Queue::new(4096, 1 << 20);
    let hour = Period::from_secs(3600);
    let mut config = Config::default();
    (config.list.every, config.list.idle) = (hour, hour);
    (config.watch.timeout, config.watch.idle) = (hour, hour);
    config.watermark.every = hour;
    let shared = Shared {
        client: Client::new(Access::plain(&url)).unwrap(),
        queue,
        ids: RelistIds::new("i"),
        config: Arc::new(config),
        watch_list: false,
        charging: Charging::default(),
        lists: Lists::new(NonZeroUsize::MIN),
        limited: Limited::default(),
        watermarks: Watermarks::default(),
        awaited: watch::channel(()).1,
        publisher: Arc::new(Status::default()),
    };
    (world, shared, lines)
}
