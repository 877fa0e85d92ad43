//! Bounds on the number of lists that are read at the same time, and on the size of their pages.

use std::{num::NonZeroUsize, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    kubernetes::{Answer, Failure},
    queue::Closed,
};

/// The maximum size of all pages in memory, in bytes. The lines that result from a page may need as much again; both
/// together fit into the memory limit of the chart (512 MiB).
const PAGES_MAX_BYTES: usize = 128 << 20;

/// The size of a page into which every object fits, in bytes: an API server accepts at most 3 MiB, whatever etcd
/// stores, and JSON needs up to six bytes for a character.
const OBJECT_MAX_BYTES: usize = 20 << 20;

/// The maximum size of a page in memory without a permit, in bytes. A page of which more has arrived keeps its permit.
const PAUSED_MAX_BYTES: usize = 1 << 20;

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
    /// A request waits for a permit, so that the server computes few lists at the same time.
    pub(super) async fn open<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Result<(T, Permit), Failure>, Closed> {
        let permit = self.permit().await?;
        self.patiently(request, permit).await
    }

    /// Reads the page that an answer brings. It comes with a permit, too.
    pub(super) async fn page(
        &self,
        mut answer: Answer,
        mut permit: Permit,
    ) -> Result<Result<(Bytes, Permit), Failure>, Closed> {
        loop {
            let is_long = answer.read_bytes() > PAUSED_MAX_BYTES;
            let more = answer.read_more(self.page_max_bytes);
            let more = match is_long {
                true => more.await.map(|is_more| (is_more, permit)),
                false => self.patiently(more, permit).await?,
            };
            match more {
                Ok((true, kept)) => permit = kept,
                Ok((false, kept)) => return Ok(Ok((answer.into_read(), kept))),
                Err(failure) => return Ok(Err(failure)),
            }
        }
    }

    /// Waits for what a server sends next. One that does not send it soon must not hold up other kinds: then this list
    /// goes on without a permit, until it comes.
    async fn patiently<T>(
        &self,
        next: impl Future<Output = Result<T, Failure>>,
        permit: Permit,
    ) -> Result<Result<(T, Permit), Failure>, Closed> {
        let mut next = pin!(next);
        if let Ok(sent) = timeout(PATIENCE, &mut next).await {
            return Ok(sent.map(|sent| (sent, permit)));
        }
        drop(permit);
        match next.await {
            Ok(sent) => Ok(Ok((sent, self.permit().await?))),
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
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        sync::oneshot,
    };

    use super::*;
    use crate::kubernetes::{Access, Client, JSON};

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
        let (answer, answered) = oneshot::channel::<()>();
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
        let (answer, answered) = oneshot::channel::<()>();
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

    /// The answer of a server that sends so many bytes, and one more when it is told to.
    async fn paused(bytes: usize) -> (Answer, oneshot::Sender<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (go_on, told) = oneshot::channel();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let length = bytes + 1;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&vec![b' '; bytes]).await.unwrap();
            told.await.unwrap();
            stream.write_all(b" ").await.unwrap();
        });
        let client = Client::new(Access::plain(&url)).unwrap();
        (client.open("/api", JSON).await.unwrap(), go_on)
    }

    #[tokio::test]
    async fn a_page_that_pauses_does_not_hold_up_others() {
        let lists = lists(1);
        let (answer, go_on) = paused(100).await;
        let permit = lists.permit().await.unwrap();
        let page = tokio::spawn({
            let lists = lists.clone();
            async move { lists.page(answer, permit).await }
        });
        let other = timeout(PATIENCE * 20, lists.open(future::ready(Ok(())))).await;
        let ((), permit) = other.unwrap().unwrap().unwrap();
        go_on.send(()).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!page.is_finished(), "another list is being read");
        drop(permit);
        let (page, _permit) = page.await.unwrap().unwrap().unwrap();
        assert_eq!(page.len(), 101);
    }

    /// Pages without permits have no bound together.
    #[tokio::test]
    async fn a_page_of_which_much_is_in_memory_keeps_its_permit_while_it_pauses() {
        let lists = lists(1);
        let bytes = PAUSED_MAX_BYTES + 1;
        let (answer, go_on) = paused(bytes).await;
        let permit = lists.permit().await.unwrap();
        let page = tokio::spawn({
            let lists = lists.clone();
            async move { lists.page(answer, permit).await }
        });
        let other = timeout(PATIENCE * 2, lists.open(future::ready(Ok(())))).await;
        assert!(other.is_err(), "a page is being read");
        go_on.send(()).unwrap();
        let (page, _permit) = page.await.unwrap().unwrap().unwrap();
        assert_eq!(page.len(), bytes + 1);
    }
}
