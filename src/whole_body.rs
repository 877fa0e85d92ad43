//! Reads a body as a whole, and says why one did not arrive.

use std::error::Error;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use futures::{StreamExt as _, stream::iter};
use http_body_util::BodyExt as _;

use crate::problem::{Problem, Reason};

/// Why a listener ended the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Ended {
    /// It paused for longer than allowed.
    #[error("the body did not arrive in time")]
    Stalled,
    /// It has more bytes than allowed.
    #[error("the body is too large")]
    TooLarge,
    /// Other bodies use the whole budget.
    #[error("there is no room for the body")]
    OutOfBudget,
}

/// Other bodies use the whole budget, and the bytes of this body were returned to it. Its handler need not keep the
/// body: if the handler drops what it has and reads on, the remaining bytes arrive, and do not count.
#[derive(Debug, thiserror::Error)]
#[error("there is no room to keep the body")]
pub(crate) struct NotKept;

/// Whether this error of a body is [`NotKept`].
pub(crate) fn is_not_kept(error: &axum::Error) -> bool {
    source::<NotKept>(error).is_some()
}

fn source<E: Error + 'static>(error: &axum::Error) -> Option<&E> {
    let mut sources = std::iter::successors(error.source(), |&error| error.source());
    sources.find_map(|source| source.downcast_ref())
}

/// The problem of a body that did not arrive. If the listener ended the body, the listener answers; the reason is the
/// same, for metrics and the log.
pub(crate) fn not_arrived(error: &axum::Error) -> Problem {
    let reason = match source(error) {
        Some(Ended::Stalled) => Reason::RequestTimeout,
        Some(Ended::TooLarge) => Reason::TooLarge,
        Some(Ended::OutOfBudget) => Reason::Overloaded,
        None => Reason::Malformed,
    };
    Problem::new(reason, format!("the body did not arrive: {error}"))
}

/// A body that failed before its end.
#[derive(Debug)]
pub(crate) struct Broken {
    begin: Vec<u8>,
    error: axum::Error,
    rest: Body,
}

impl Broken {
    /// The body from its begin, with its failure, for a handler that can go on without keeping the body.
    ///
    /// # Errors
    /// As [`not_arrived`] if the failure is another one.
    pub(crate) fn resumed(self) -> Result<Body, Problem> {
        if !is_not_kept(&self.error) {
            return Err(self.into());
        }
        let failed = [Ok(Bytes::from(self.begin)), Err(self.error)];
        Ok(Body::from_stream(iter(failed).chain(self.rest.into_data_stream())))
    }
}

impl From<Broken> for Problem {
    fn from(broken: Broken) -> Self {
        not_arrived(&broken.error)
    }
}

/// All bytes of a body, which the listener limits. Usually they are available at once, and need not be copied.
///
/// # Errors
/// As [`not_arrived`] if the body does not arrive completely.
pub(crate) async fn whole_body(body: Body) -> Result<Bytes, Problem> {
    Ok(whole_or_broken(body).await?)
}

/// All bytes of a body; if it fails, its handler may still use a part.
///
/// # Errors
/// The body does not arrive completely.
pub(crate) async fn whole_or_broken(mut body: Body) -> Result<Bytes, Broken> {
    let mut all = Vec::new();
    let mut is_first = true;
    while let Some(frame) = body.frame().await {
        let piece = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) => {
                return Err(Broken { begin: all, error, rest: body });
            }
        };
        if is_first && body.is_end_stream() {
            return Ok(piece);
        }
        is_first = false;
        // Copied as it arrives: a piece of one byte, if it was kept, would keep a buffer of the connection.
        all.extend_from_slice(&piece);
    }
    Ok(all.into())
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    /// A buffer of a connection, of which a piece is one byte.
    struct Buffer(Arc<AtomicUsize>);

    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            b"x"
        }
    }

    impl Drop for Buffer {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_body_without_room_is_resumed_with_its_failure() {
        let pieces = |error: axum::BoxError| {
            let pieces = [Ok("ab"), Ok("cd"), Err(error), Ok("ef")];
            Body::from_stream(iter(pieces))
        };
        let broken = whole_or_broken(pieces(NotKept.into())).await.unwrap_err();
        let mut body = broken.resumed().unwrap().into_data_stream();
        assert_eq!(body.next().await.unwrap().unwrap(), "abcd");
        assert!(is_not_kept(&body.next().await.unwrap().unwrap_err()));
        assert_eq!(body.next().await.unwrap().unwrap(), "ef");
        assert!(body.next().await.is_none());
        let broken = whole_or_broken(pieces("gone".into())).await.unwrap_err();
        assert_eq!(broken.resumed().unwrap_err().reason(), Reason::Malformed);
    }

    #[tokio::test]
    async fn a_body_that_the_listener_ended_has_the_reason_of_its_answer() {
        for (ended, reason) in [
            (Ended::Stalled, Reason::RequestTimeout),
            (Ended::TooLarge, Reason::TooLarge),
            (Ended::OutOfBudget, Reason::Overloaded),
        ] {
            let pieces = [Ok("ab"), Err(ended)];
            let failed = whole_body(Body::from_stream(iter(pieces))).await;
            assert_eq!(failed.unwrap_err().reason(), reason);
        }
    }

    #[tokio::test]
    async fn no_piece_is_kept_however_small_the_pieces_are() {
        let kept = Arc::new(AtomicUsize::new(0));
        let counted = kept.clone();
        let pieces = iter(0..1000).map(move |_| {
            let before = counted.fetch_add(1, Ordering::Relaxed);
            assert!(before < 2, "{before} pieces are kept");
            Ok::<_, std::io::Error>(Bytes::from_owner(Buffer(counted.clone())))
        });
        let all = whole_body(Body::from_stream(pieces)).await.unwrap();
        assert_eq!(all, "x".repeat(1000));
        assert_eq!(kept.load(Ordering::Relaxed), 0);
    }
}
