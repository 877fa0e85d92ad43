//! Raw bytes, as received from a socket.

use std::{pin::pin, sync::Arc, time::Duration};

use super::world::{self, World};
use quotad::{
    config::Config,
    metrics::Listener,
    server::{Options, Peer, serve_stream},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    time::timeout,
};

/// Ends a connection properly, if the bytes before are complete requests.
const LAST: &[u8] = b"\r\n\r\nGET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

/// A peer that receives nothing for this time hangs up. Later answers are ignored.
const QUIET: Duration = Duration::from_millis(15);

/// The longest time for which a peer that has hung up may go unnoticed: the duration of a Kubernetes watch.
const FORGOTTEN: Duration = Duration::from_secs(4 * 3600);

/// Sends the input to the listener's handler. It answers in HTTP or not at all, never panics, and closes the connection
/// of a peer that has hung up.
pub fn run(data: &[u8]) {
    world::with(|world| {
        let answer = exchange(world, data);
        let text = answer.escape_ascii();
        // HTTP/2 begins with a frame of settings.
        let is_http2 = answer.get(3..9) == Some(&[4, 0, 0, 0, 0, 0]);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.") || is_http2, "{text}");
        assert!(!answer.starts_with(b"HTTP/1.1 500"), "{text}");
    });
}

fn exchange(world: &World, data: &[u8]) -> Vec<u8> {
    let (ours, theirs) = tokio::io::duplex(16 << 10);
    let peer = Peer { address: ([127, 0, 0, 1], 1).into(), names: Arc::new([]) };
    let options = Options::new(Listener::Api, &Config::default());
    let mut served = Box::pin(serve_stream(theirs, peer, world.router.clone(), options));
    let mut answer = Vec::new();
    let ended = world.within(async {
        let mut talk = pin!(talk(ours, data, &mut answer));
        tokio::select! {
            () = &mut served => {
                talk.await;
                true
            }
            () = &mut talk => false,
        }
    });
    if !ended {
        // From here on time is simulated: a watch notices at its next heartbeat that its client is gone.
        world.runtime.block_on(async {
            tokio::time::pause();
            let forgotten = timeout(FORGOTTEN, served).await;
            tokio::time::resume();
            forgotten.expect("a peer that is gone is still served");
        });
    }
    answer
}

async fn talk(stream: DuplexStream, data: &[u8], answer: &mut Vec<u8>) {
    let (mut from, mut to) = tokio::io::split(stream);
    let sending = async {
        // The other side may have closed the connection.
        let _ = to.write_all(data).await;
        let _ = to.write_all(LAST).await;
    };
    let reading = async {
        while let Ok(Ok(read)) = timeout(QUIET, from.read_buf(answer)).await {
            if read == 0 {
                break;
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = async { sending.await; std::future::pending().await } => {}
    }
}
