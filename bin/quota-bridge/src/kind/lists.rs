//! Bounds on the number of lists that are read at the same time, and on the size of their pages.

use std::{num::NonZeroUsize, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{kubernetes::Failure, queue::Closed};

/// The maximum size of all pages in memory, in bytes. The lines that result from a page may need as much again; both
/// together fit into the memory limit of the chart (512 MiB).
const PAGES_MAX_BYTES: usize = 128 << 20;

/// The size of a page into which every object fits, in bytes: an API server accepts at most 3 MiB, whatever etcd
/// stores, and JSON needs up to six bytes for a character.
const OBJECT_MAX_BYTES: usize = 20 << 20;

/// The time for which a list keeps its permit while no data arrive. A server answers sooner, unless a part of it is
/// down.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Permits to read lists, for the tasks of all kinds. Clones share them.
#[derive(Clone, Debug)]
pub struct Lists {
    permits: Arc<Semaphore>,
    page_max_bytes: usize,
}

/// A permit to read a list.
pub(super) type Permit = OwnedSemaphorePermit;

impl Lists {
    /// Permits for `concurrency` lists.
    #[must_use]
    pub fn new(concurrency: NonZeroUsize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(concurrency.get())),
            page_max_bytes: (PAGES_MAX_BYTES / concurrency).max(OBJECT_MAX_BYTES),
        }
    }

    /// The maximum size of a page, in bytes.
    pub(super) const fn page_max_bytes(&self) -> usize {
        self.page_max_bytes
    }

    /// Sends a request for a list. Returns the response with the permit to read it.
    ///
    /// A request waits for a permit, so that the server computes few lists at the same time. A server that does not
    /// answer soon must not hold up other kinds: then the request goes on without a permit, until the response begins.
    pub(super) async fn open<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Result<(T, Permit), Failure>, Closed> {
        let mut request = pin!(request);
        let permit = self.permit().await?;
        if let Ok(answer) = timeout(PATIENCE, &mut request).await {
            return Ok(answer.map(|answer| (answer, permit)));
        }
        drop(permit);
        match request.await {
            Ok(answer) => Ok(Ok((answer, self.permit().await?))),
            Err(failure) => Ok(Err(failure)),
        }
    }

    async fn permit(&self) -> Result<Permit, Closed> {
        let permit = self.permits.clone().acquire_owned();
        permit.await.map_err(|_| Closed)
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use futures::FutureExt as _;

    use super::*;

    fn lists(concurrency: usize) -> Lists {
        Lists::new(NonZeroUsize::new(concurrency).unwrap())
    }

    #[test]
    fn the_pages_of_all_lists_have_a_bound_and_each_object_fits() {
        assert_eq!(lists(1).page_max_bytes(), PAGES_MAX_BYTES);
        assert_eq!(lists(4).page_max_bytes() * 4, PAGES_MAX_BYTES);
        assert_eq!(lists(1000).page_max_bytes(), OBJECT_MAX_BYTES);
    }

    #[tokio::test]
    async fn a_list_waits_for_others_but_not_for_those_without_an_answer() {
        let lists = lists(1);
        let (first, permit) = lists.open(future::ready(Ok(1))).await.unwrap().unwrap();
        assert_eq!(first, 1);
        let second = lists.open(future::ready(Ok(2))).now_or_never();
        assert!(second.is_none(), "the first one is being read");
        drop(permit);
        // Some never answer, or late.
        let silent: Vec<_> = (0..2)
            .map(|_| {
                let lists = lists.clone();
                tokio::spawn(async move { lists.open(future::pending::<Result<(), _>>()).await })
            })
            .collect();
        let (answer, answered) = tokio::sync::oneshot::channel::<()>();
        let late = tokio::spawn({
            let lists = lists.clone();
            async move {
                let request = answered.map(|_| Err::<(), _>(Failure::Silent));
                lists.open(request).await
            }
        });
        tokio::task::yield_now().await;
        let third = timeout(PATIENCE * 20, lists.open(future::ready(Ok(3)))).await;
        let (third, permit) = third.unwrap().unwrap().unwrap();
        assert_eq!(third, 3);
        // A failure needs no permit.
        answer.send(()).unwrap();
        let late = late.await.unwrap().unwrap();
        assert_eq!(late.unwrap_err(), Failure::Silent);
        drop(permit);
        for task in silent {
            task.abort();
        }
    }

    #[tokio::test]
    async fn an_answer_that_comes_late_is_read_with_a_permit() {
        let lists = lists(1);
        let (answer, answered) = tokio::sync::oneshot::channel::<()>();
        let late = tokio::spawn({
            let lists = lists.clone();
            async move {
                let request = answered.map(|_| Ok::<_, Failure>(()));
                lists.open(request).await
            }
        });
        tokio::task::yield_now().await;
        let (_, permit) = lists.open(future::ready(Ok(()))).await.unwrap().unwrap();
        answer.send(()).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!late.is_finished(), "another list is being read");
        drop(permit);
        assert!(late.await.unwrap().unwrap().is_ok());
    }
}
