//! Relists in the stream: what was lost is put right, once, whatever crashes when.

use quota_core::event::{Event, RelistOutcome};

use super::*;

const BEGIN: &str = r#"{"type":"RELIST_BEGIN","resource":"widgets.example.com"}"#;
const END: &str = r#"{"type":"RELIST_END","resource":"widgets.example.com"}"#;

fn ended(event: &Event) -> Option<String> {
    match event {
        Event::ObjectEnded(ending) => Some(ending.uid.to_string()),
        _ => None,
    }
}

fn outcome(event: &Event) -> Option<(RelistOutcome, u64, u64)> {
    match event {
        Event::RelistEnded(end) => Some((end.outcome, end.listed, end.ended)),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_relist_does_not_hold_is_ended_by_entries() {
    let scene = Scene::new();
    scene.first_contact().await;
    let context = scene.server.jetstream().await;
    let daemon = scene.daemon().await;
    publish(&context, widgets(0..10)).await;
    let other = widget("ADDED", 99, 1).replace("widgets.", "gadgets.");
    publish(&context, [other]).await;
    // The deletions of 7, 8 and 9 were lost; 10 comes up while it is listed, and 3 goes.
    let mut list = vec![BEGIN.to_owned()];
    list.extend(widgets(0..7));
    list.extend([widget("ADDED", 10, 2), widget("DELETED", 3, 3)]);
    list.push(END.to_owned());
    publish(&context, list).await;
    daemon
        .until("the relist is over", |state| position(state) == 22 && state.relist_count() == 0)
        .await;
    daemon.ledger.peek(|state| {
        let alive: Vec<_> = (0..11).filter(|n| is_alive(state, *n)).collect();
        assert_eq!(alive, [0, 1, 2, 4, 5, 6, 10]);
        assert!(is_alive(state, 99), "another kind is not spoken of");
        assert_eq!(units(state), 2 * 8);
    });
    let mut gone = daemon.recorded(ended).await;
    gone.sort();
    assert_eq!(gone, ["u-7", "u-8", "u-9"]);
    assert_eq!(daemon.recorded(outcome).await, [(RelistOutcome::Complete, 7, 3)]);
    daemon.stop().await;

    // Ended is not deleted: what is seen again is there again.
    let daemon = scene.daemon().await;
    publish(&context, [widget("ADDED", 7, 1)]).await;
    daemon.until("it is back", |state| is_alive(state, 7)).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relist_goes_on_after_a_crash_in_its_middle() {
    let mut scene = Scene::new();
    scene.config.journal.max_batch_entries = "3".parse().unwrap();
    scene.first_contact().await;
    let context = scene.server.jetstream().await;
    publish(&context, widgets(0..40)).await;
    let mut list = vec![BEGIN.to_owned()];
    list.extend(widgets(0..30));
    let mut position_to_be = 40;
    // The daemon is cut off again and again while the list comes in, and once behind its end.
    for part in list.chunks(5).chain([&[END.to_owned()][..]]) {
        publish(&context, part.iter().cloned()).await;
        position_to_be += part.len() as u64;
        let daemon = scene.daemon().await;
        daemon.until("the part is consumed", |state| position(state) == position_to_be).await;
        daemon.abort().await;
    }
    let daemon = scene.daemon().await;
    quotad::intake::record::finish(&daemon.ledger).await.unwrap();
    daemon.ledger.peek(|state| {
        assert_eq!(state.relist_count(), 0);
        let alive: Vec<_> = (0..40).filter(|n| is_alive(state, *n)).collect();
        assert_eq!(alive, (0..30).collect::<Vec<_>>());
    });
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_ended_unless_the_list_is_whole() {
    let scene = Scene::new();
    scene.first_contact().await;
    let context = scene.server.jetstream().await;
    let daemon = scene.daemon().await;
    publish(&context, widgets(0..5)).await;
    let kept = |what: &str| what.to_owned();
    let bookmark = r#"{"type":"BOOKMARK","object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"resourceVersion":"90","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    publish(
        &context,
        [
            // An end without a begin, in both forms.
            kept(END),
            widget("ADDED", 0, 1),
            kept(bookmark),
            // Nothing is listed.
            kept(BEGIN),
            kept(END),
            // Something could not be read.
            kept(BEGIN),
            widget("ADDED", 0, 1),
            kept("garbage"),
            kept(END),
            // The id is another one's.
            BEGIN.replace('}', r#","id":"a"}"#),
            widget("ADDED", 0, 1),
            kept(END),
            END.replace('}', r#","id":"b"}"#),
            kept(bookmark),
        ],
    )
    .await;
    daemon.until("all is consumed", |state| position(state) == 19).await;
    let outcomes = daemon.recorded(outcome).await;
    let kinds: Vec<_> = outcomes.iter().map(|(outcome, ..)| *outcome).collect();
    assert_eq!(kinds, [RelistOutcome::Empty, RelistOutcome::Incomplete]);
    assert!(daemon.recorded(ended).await.is_empty());

    // A message that was removed before it was consumed may have been one of the list.
    daemon.stop().await;
    publish(&context, [kept(BEGIN), widget("ADDED", 0, 1), widget("ADDED", 1, 1), kept(END)]).await;
    let stream = context.get_stream(STREAM).await.unwrap();
    assert!(stream.delete_message(21).await.unwrap());
    let daemon = scene.daemon().await;
    daemon.until("all is consumed", |state| position(state) == 23).await;
    let outcomes = daemon.recorded(outcome).await;
    assert_eq!(outcomes[0].0, RelistOutcome::Incomplete);
    daemon.ledger.peek(|state| assert_eq!(state.object_count(), 5));

    // A begin, and Kubernetes' bookmark behind what there is; what is newer than it is not meant.
    let newer = widget("MODIFIED", 4, 91);
    publish(&context, [newer, kept(BEGIN), widget("ADDED", 0, 1), kept(bookmark)]).await;
    daemon
        .until("the relist is over", |state| position(state) == 27 && state.relist_count() == 0)
        .await;
    daemon.ledger.peek(|state| {
        let alive: Vec<_> = (0..5).filter(|n| is_alive(state, *n)).collect();
        assert_eq!(alive, [0, 4]);
    });

    // That there are none has to be said.
    let none = BEGIN.replace('}', r#","allowEmpty":true}"#);
    publish(&context, [none, kept(END)]).await;
    daemon
        .until("the relist is over", |state| position(state) == 29 && state.relist_count() == 0)
        .await;
    daemon.ledger.peek(|state| assert_eq!(state.object_count(), 0));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relist_that_is_read_again_after_the_stream_went_back_ends_nothing() {
    let mut scene = Scene::new();
    scene.first_contact().await;
    let mut list = vec![BEGIN.to_owned()];
    list.extend(widgets(0..3));
    list.push(END.to_owned());
    publish(&scene.server.jetstream().await, list.clone()).await;
    // This one ends only after the backup was restored.
    publish(&scene.server.jetstream().await, [BEGIN.to_owned(), widget("ADDED", 0, 1)]).await;
    scene.server.kill();
    let backup = scene.server.copy();
    scene.server.restart();
    publish(&scene.server.jetstream().await, widgets(3..6)).await;
    let daemon = scene.daemon().await;
    daemon.until("all are consumed", |state| position(state) == 10).await;
    daemon.stop().await;

    scene.server.kill();
    scene.server.restore(backup);
    scene.server.restart();
    let context = scene.server.jetstream().await;
    publish(&context, [END.to_owned(), widget("ADDED", 77, 1)]).await;
    let mut alive: Vec<_> = (0..6).collect();
    alive.push(77);
    for _ in 0..2 {
        let daemon = scene.daemon().await;
        daemon
            .until("the stream is read again", |state| {
                position(state) == 9 && is_alive(state, 77) && state.relist_count() == 0
            })
            .await;
        let found = daemon.ledger.peek(|state| {
            let all = (0..78).filter(|number| is_alive(state, *number));
            all.collect::<Vec<_>>()
        });
        assert_eq!(found, alive);
        assert!(daemon.recorded(ended).await.is_empty());
        daemon.stop().await;
    }

    // What is listed from now on counts.
    publish(&context, list).await;
    let daemon = scene.daemon().await;
    daemon
        .until("the relist is over", |state| {
            position(state) == 14 && !is_alive(state, 77) && state.relist_count() == 0
        })
        .await;
    assert_eq!(daemon.recorded(outcome).await, [(RelistOutcome::Complete, 3, 4)]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_understood_of_one_kind_spoils_no_relist_of_another() {
    let scene = Scene::new();
    scene.first_contact().await;
    let context = scene.server.jetstream().await;
    let daemon = scene.daemon().await;
    let gadgets = |event: &str| event.replace("widgets.", "gadgets.");
    publish(&context, widgets(0..2)).await;
    publish(&context, [gadgets(&widget("ADDED", 8, 1))]).await;
    publish(&context, [gadgets(&widget("ADDED", 9, 1))]).await;
    let bad = widget("ADDED", 1, 2).replace(r#"":"2""#, r#"":"2 pieces""#);
    let list = [
        BEGIN.to_owned(),
        gadgets(BEGIN),
        widget("ADDED", 0, 1),
        gadgets(&widget("ADDED", 8, 1)),
        bad,
        END.to_owned(),
        gadgets(END),
    ];
    publish(&context, list).await;
    daemon
        .until("the relists are over", |state| position(state) == 11 && state.relist_count() == 0)
        .await;
    let outcomes = daemon.recorded(outcome).await;
    let expected = [(RelistOutcome::Incomplete, 1, 0), (RelistOutcome::Complete, 1, 1)];
    assert_eq!(outcomes, expected);
    daemon.ledger.peek(|state| {
        let alive: Vec<_> = (0..10).filter(|n| is_alive(state, *n)).collect();
        assert_eq!(alive, [0, 1, 8]);
    });
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_that_went_back_are_replaced_by_what_is_listed() {
    let scene = Scene::new();
    scene.first_contact().await;
    let context = scene.server.jetstream().await;
    // What the cluster had before it was replaced, or before its etcd was restored.
    let before = (0..5).map(|number| widget("ADDED", number, 1000));
    publish(&context, before.chain([widget("DELETED", 3, 1001)])).await;
    let reset = BEGIN.replace('}', r#","versions":"reset"}"#);
    let end = END.replace('}', r#","resourceVersion":"10"}"#);
    // The first attempt does not come to its end, and the daemon is cut off in the middle of the second.
    let first = [reset, widget("ADDED", 0, 5), "garbage".into(), end.clone()];
    publish(&context, first).await;
    publish(&context, [BEGIN.to_owned(), widget("ADDED", 0, 5)]).await;
    let daemon = scene.daemon().await;
    daemon.until("the begin is consumed", |state| position(state) == 12).await;
    daemon.ledger.peek(|state| {
        assert!(!is_alive(state, 3) && is_alive(state, 4));
    });
    daemon.abort().await;
    let rest = [
        widget("ADDED", 3, 6),
        // A change in the new order of versions, and one that comes again.
        widget("MODIFIED", 0, 7).replace(r#"":"2""#, r#"":"9""#),
        widget("ADDED", 0, 5),
        end,
    ];
    publish(&context, rest).await;
    let daemon = scene.daemon().await;
    daemon
        .until("the relist is over", |state| position(state) == 16 && state.relist_count() == 0)
        .await;
    daemon.ledger.peek(|state| {
        let alive: Vec<_> = (0..5).filter(|n| is_alive(state, *n)).collect();
        assert_eq!(alive, [0, 3], "the others have higher versions than the list");
        assert_eq!(units(state), 9 + 2);
        assert!(state.version_resets().is_empty());
    });
    daemon.stop().await;

    // From here on versions are what they were: the next list ends nothing that is newer than it.
    let later = [
        BEGIN.to_owned(),
        widget("ADDED", 0, 7),
        widget("ADDED", 3, 6),
        END.replace('}', r#","resourceVersion":"10"}"#),
    ];
    publish(&context, [widget("ADDED", 4, 11)]).await;
    publish(&context, later).await;
    let daemon = scene.daemon().await;
    daemon
        .until("the relist is over", |state| position(state) == 21 && state.relist_count() == 0)
        .await;
    daemon.ledger.peek(|state| assert!(is_alive(state, 4)));
    daemon.stop().await;
}
