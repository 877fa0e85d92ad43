//! Decisions as jobs of the decider, and the futures of their results.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::FutureExt as _;
use quota_journal::Durable;
use tokio::sync::oneshot;

use super::{Answer, DecisionContext, Job, Unavailable, inbox::Inbox};

/// A decision that has been handed in, or why it was not.
pub(super) struct Handed<R> {
    pub(super) handed: Result<oneshot::Receiver<(R, Durable)>, Unavailable>,
    pub(super) inbox: Arc<Inbox>,
}

impl<R> Future for Handed<R> {
    type Output = Result<(R, Durable), Unavailable>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { handed, inbox } = &mut *self;
        let answered = match handed {
            Ok(answered) => ready!(answered.poll_unpin(cx)),
            Err(refused) => return Poll::Ready(Err(*refused)),
        };
        Poll::Ready(answered.map_err(|_| inbox.why_dropped()))
    }
}

/// A decision about a subject, which is made only if the caller still holds the subject.
pub(super) fn while_held<S, R, D>(
    subject: &Arc<S>,
    decision: D,
) -> impl FnOnce(&mut DecisionContext<'_>) -> Option<R> + Send + use<S, R, D>
where
    S: Send + Sync + 'static,
    D: FnOnce(&mut DecisionContext<'_>, &S) -> R + Send + 'static,
{
    let subject = Arc::downgrade(subject);
    move |context| {
        let subject = subject.upgrade()?;
        Some(decision(context, &subject))
    }
}

/// A decision as a job, and the receiver of its result.
pub(super) fn job<R, D>(decision: D) -> (Job, oneshot::Receiver<(R, Durable)>)
where
    R: Send + 'static,
    D: FnOnce(&mut DecisionContext<'_>) -> Option<R> + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let job = move |context: &mut DecisionContext<'_>| -> Answer {
        let Some(result) = decision(context) else {
            return Box::new(|_| {});
        };
        Box::new(move |durable: &Durable| {
            // The caller may no longer wait. The decision is valid all the same.
            let _ = answer.send((result, *durable));
        })
    };
    (Box::new(job), answered)
}
