//! Large answers on real threads.

use std::{sync::Arc, thread};

use quota_semantics::Name;

use super::{ANSWERS, WAITING, WATCHES, *};

fn permit(principal: &str) -> Permit {
    Permit::to_change(&principal.into())
}

#[tokio::test]
async fn what_is_large_is_made_elsewhere_and_what_is_small_here() {
    let thread = |_: &Turn| thread::current().id();
    let here = thread(&Turn::SHORT);
    assert_eq!(permit("a").make(AMOUNTS_AT_ONCE, thread).await, here);
    assert_ne!(permit("a").make(AMOUNTS_AT_ONCE + 1, thread).await, here);
    let numbers: Vec<u32> = (0..10_000).collect();
    let expected = serde_json::to_vec(&numbers).unwrap();
    let permit = permit("a");
    let made = permit.make(usize::MAX, move |turn| turn.to_json(&numbers, 0).unwrap());
    assert!(made.await == expected);
}

#[tokio::test]
async fn who_has_gone_leaves_nothing_and_who_has_many_waits() {
    let name = Name::from("crowd");
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let first = tokio::spawn(async move {
        let permit = permit("crowd");
        permit.make(usize::MAX, move |_| wait.recv()).await
    });
    while !ANSWERS.queue.lock().is_held(&name) {
        tokio::task::yield_now().await;
    }
    let held = Arc::new(());
    let asks = (0..WAITING).map(|_| {
        let held = Arc::clone(&held);
        tokio::spawn(async move {
            let permit = permit("crowd");
            permit.make(usize::MAX, move |_| drop(held)).await;
        })
    });
    let asks: Vec<_> = asks.collect();
    while Permit::to_read(&name).is_ok() {
        tokio::task::yield_now().await;
    }
    for ask in &asks {
        ask.abort();
    }
    while Arc::strong_count(&held) > 1 {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
    while Permit::to_read(&name).is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_not_made_to_its_end() {
    let (has_begun, begun) = std::sync::mpsc::channel();
    let (ends, ended) = std::sync::mpsc::channel::<()>();
    let request = tokio::spawn(async move {
        let work = move |turn: &Turn| {
            let _ends = ends;
            has_begun.send(()).unwrap();
            loop {
                turn.pause();
            }
        };
        permit("gone").make::<(), _>(usize::MAX, work).await;
    });
    while begun.try_recv().is_err() {
        tokio::task::yield_now().await;
    }
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    let ended = tokio::task::spawn_blocking(move || ended.recv());
    assert!(ended.await.unwrap().is_err(), "its thread has left it");
    assert_eq!(permit("gone").make(usize::MAX, |_| 7).await, 7);
}

#[tokio::test]
async fn a_panic_is_that_of_the_request_and_the_next_one_is_answered() {
    let panics = tokio::spawn(async { permit("p").make(usize::MAX, |_| panic!("no")).await });
    assert!(panics.await.unwrap_err().is_panic());
    assert_eq!(permit("p").make(usize::MAX, |_| 7).await, 7);
}

#[tokio::test]
async fn many_watches_keep_no_list_of_their_principal_waiting() {
    let name = Name::from("watcher");
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let first = tokio::spawn(async move {
        let permit = Permit::to_watch(&"watcher".into());
        permit.make(usize::MAX, move |_| wait.recv()).await
    });
    while !WATCHES.queue.lock().is_held(&name) {
        tokio::task::yield_now().await;
    }
    let watches = (0..2 * WAITING).map(|_| {
        tokio::spawn(async {
            let permit = Permit::to_watch(&"watcher".into());
            permit.make(usize::MAX, |_| ()).await;
        })
    });
    let watches: Vec<_> = watches.collect();
    while WATCHES.queue.lock().count(&name) < watches.len() {
        tokio::task::yield_now().await;
    }
    let list = Permit::to_read(&name).ok().unwrap();
    assert_eq!(list.make(usize::MAX, |_| 7).await, 7);
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
    for watch in watches {
        watch.await.unwrap();
    }
}

#[test]
fn a_thread_pauses_behind_each_step() {
    let long_ago = Instant::now() - 4 * STEP;
    BEGAN.set(long_ago);
    assert!(pause());
    // The next step begins after the pause.
    assert!(BEGAN.get() >= long_ago + 4 * STEP + PAUSE);
    BEGAN.set(Instant::now() + 1000 * STEP);
    assert!(!pause());
}

#[test]
fn the_first_step_of_a_thread_begins_with_it() {
    let before = Instant::now();
    let began = std::thread::spawn(|| BEGAN.get());
    assert!(began.join().unwrap() >= before);
}
