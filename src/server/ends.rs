//! Ends a connection: by itself, because the listener stops, or because its peer may not continue.

use std::{
    future::Future,
    net::SocketAddr,
    pin::{Pin, pin},
    time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio_util::sync::CancellationToken;

/// Reasons to end a connection from outside.
pub(super) struct Ends<F> {
    /// The listener stops.
    pub(super) stop: CancellationToken,
    /// The caller's certificate is no longer valid.
    pub(super) invalid: F,
}

/// A connection that can be told to accept no further requests and to end.
pub(super) trait Drain: Future<Output = hyper::Result<()>> {
    fn drain(self: Pin<&mut Self>);
}

impl<F: Future<Output = ()>> Ends<F> {
    /// Serves a connection to its end.
    ///
    /// When the listener stops, requests in progress end as long as the listener waits; when the certificate is no
    /// longer valid, within `patience`; when `given_up` gives a reason to drop the peer, within the time that it names.
    pub(super) async fn serve(
        self,
        connection: impl Drain,
        address: SocketAddr,
        patience: Duration,
        given_up: impl Future<Output = (&'static str, Duration)>,
    ) {
        let mut connection = pin!(connection);
        let reason = async {
            tokio::select! {
                () = self.stop.cancelled() => None,
                () = self.invalid => {
                    tracing::debug!(%address, "the caller's certificate is no longer valid");
                    Some(patience)
                }
                (why, rest) = given_up => {
                    tracing::debug!(%address, why, "connection dropped");
                    Some(rest)
                }
            }
        };
        // Polled only when woken, unlike a plain future: all connections share the lock of the token.
        let mut reason = FuturesUnordered::from_iter([reason]);
        let rest = tokio::select! {
            biased;
            ended = connection.as_mut() => return log_lost(address, ended),
            Some(rest) = reason.next() => rest,
        };
        connection.as_mut().drain();
        let ended = match rest {
            None => connection.await,
            Some(rest) => tokio::time::timeout(rest, connection)
                .await
                .unwrap_or(Ok(())),
        };
        log_lost(address, ended);
    }
}

fn log_lost(address: SocketAddr, ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%address, %error, "connection lost");
    }
}
