//! Reads a body as a whole.

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http_body_util::BodyExt as _;

use crate::problem::{Problem, Reason};

/// All bytes of a body, which the listener limits. Usually they are available at once, and need not be copied.
///
/// # Errors
/// `Malformed` if the body does not arrive completely.
pub(crate) async fn whole_body(mut body: Body) -> Result<Bytes, Problem> {
    let not_arrived = |error: axum::Error| {
        let detail = format!("the body did not arrive: {error}");
        Problem::new(Reason::Malformed, detail)
    };
    let Some(first) = body.frame().await else {
        return Ok(Bytes::new());
    };
    let first = first.map_err(not_arrived)?.into_data().unwrap_or_default();
    if body.is_end_stream() {
        return Ok(first);
    }
    // Copied as it arrives: a piece of one byte, if it was kept, would keep a buffer of the connection.
    let mut all = Vec::from(first);
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame.map_err(not_arrived)?.into_data() {
            all.extend_from_slice(&piece);
        }
    }
    Ok(all.into())
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures::{StreamExt as _, stream::iter};

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
