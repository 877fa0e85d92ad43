use std::{sync::Arc, thread};

use quota_ledger::group_commit::GroupCommit;

use super::*;

const LONG: Duration = Duration::from_secs(60);
const JOBS: WakeCondition = WakeCondition::Jobs { handing: false };
const HANDING: WakeCondition = WakeCondition::Jobs { handing: true };

fn job() -> Job {
    Box::new(|_| Box::new(|_| {}))
}

fn push(inbox: &Inbox) -> Result<(), Unavailable> {
    inbox.push(&Lane::First, [job()])
}

fn batch() -> ClosedBatch<Answer> {
    let mut group_commit = GroupCommit::new(1);
    group_commit.decided(Box::new(|_: &_| {}) as Answer, true);
    group_commit.close().unwrap()
}

/// The result of a wait, and how many jobs were taken.
fn wait(inbox: &Inbox, wants: WakeCondition, longest: Duration) -> Option<(Woken, usize)> {
    let mut taken = VecDeque::new();
    let woken = inbox.wait(wants, longest, usize::MAX, &mut taken)?;
    Some((woken, taken.len()))
}

#[test]
fn a_batch_that_is_void_before_it_is_handed_on_leaves_the_syncer_idle() {
    let inbox = Inbox::new(8, Gate::Shut);
    inbox.open();
    inbox.void(inbox.term());
    inbox.hand_on(batch());
    inbox.has_voided();
    inbox.hand_on(batch());
    inbox.is_rebuilt();
    inbox.open();
    assert!(inbox.syncer_rests());
    inbox.begin_to_shut();
    inbox.close();
    let (woken, _) = wait(&inbox, JOBS, LONG).unwrap();
    assert!(woken.idle.is_some() && woken.closed);
}

#[test]
fn decisions_are_dropped_only_when_the_syncer_has_ended_its_batch() {
    let inbox = Inbox::new(8, Gate::Shut);
    inbox.open();
    inbox.hand_on(batch());
    assert!(inbox.next_batch().is_some());
    inbox.void(inbox.term());
    let (woken, _) = wait(&inbox, JOBS, Duration::ZERO).unwrap();
    assert!(woken.gate == Gate::Voiding && woken.idle.is_none());
    inbox.syncer_is_idle();
    let (woken, _) = wait(&inbox, JOBS, LONG).unwrap();
    assert!(woken.gate == Gate::Voiding && woken.idle.is_some());
}

#[test]
fn what_is_barred_drops_what_waits_and_is_not_opened_again() {
    let inbox = Inbox::new(8, Gate::Open);
    push(&inbox).unwrap();
    inbox.bar();
    let (woken, taken) = wait(&inbox, JOBS, LONG).unwrap();
    assert_eq!((woken.gate, taken), (Gate::Closing, 0));
    inbox.stay_open();
    inbox.has_shut();
    inbox.open();
    inbox.stay_open();
    assert_eq!(push(&inbox), Err(Unavailable::NotLeader));
    assert_eq!(*inbox.gate().borrow(), Gate::Shut);
}

#[test]
fn what_is_suspended_drops_what_waits_and_is_opened_again_only_afterwards() {
    let inbox = Inbox::new(8, Gate::Shut);
    inbox.open();
    push(&inbox).unwrap();
    inbox.suspend();
    let (woken, taken) = wait(&inbox, JOBS, LONG).unwrap();
    assert_eq!((woken.gate, woken.is_barred, taken), (Gate::Closing, true, 0));
    inbox.has_shut();
    inbox.stay_open();
    inbox.open();
    assert_eq!(push(&inbox), Err(Unavailable::NotLeader));
    inbox.resume();
    inbox.open();
    push(&inbox).unwrap();
    // What is barred for good is not resumed.
    inbox.bar();
    inbox.has_shut();
    inbox.resume();
    inbox.open();
    assert_eq!(push(&inbox), Err(Unavailable::NotLeader));
}

#[test]
fn what_a_node_without_others_drops_is_not_said_to_be_undecided() {
    let inbox = Inbox::new(8, Gate::Open);
    assert_eq!(inbox.why_dropped(), Unavailable::Stopped);
    let inbox = Inbox::new(8, Gate::Shut);
    inbox.open();
    assert_eq!(inbox.why_dropped(), Unavailable::NotLeader);
}

#[test]
fn one_job_wakes_while_the_syncer_is_idle() {
    let inbox = Arc::new(Inbox::new(8, Gate::Open));
    let pushing = inbox.clone();
    let pushed = thread::spawn(move || push(&pushing));
    let (woken, taken) = wait(&inbox, JOBS, LONG).unwrap();
    assert!(woken.idle.is_some() && !woken.more);
    assert_eq!(taken, 1);
    pushed.join().unwrap().unwrap();
}

#[test]
fn while_it_is_busy_only_many_jobs_or_its_end_do() {
    let inbox = Arc::new(Inbox::new(2 * WORTH_WAKING, Gate::Open));
    inbox.hand_on(batch());
    assert!(inbox.next_batch().is_some());
    push(&inbox).unwrap();
    let (woken, taken) = wait(&inbox, JOBS, Duration::ZERO).unwrap();
    assert!(woken.idle.is_none());
    assert_eq!(taken, 1);
    let pushing = inbox.clone();
    let pushed = thread::spawn(move || {
        (0..WORTH_WAKING).for_each(|_| push(&pushing).unwrap());
    });
    let (woken, taken) = wait(&inbox, JOBS, LONG).unwrap();
    assert!(woken.idle.is_none());
    assert_eq!(taken, WORTH_WAKING);
    pushed.join().unwrap();

    push(&inbox).unwrap();
    let syncing = inbox.clone();
    let synced = thread::spawn(move || syncing.syncer_is_idle());
    assert!(wait(&inbox, JOBS, LONG).unwrap().0.idle.is_some());
    synced.join().unwrap();
}

#[test]
fn what_is_decided_waits_for_the_syncer_alone() {
    let inbox = Inbox::new(8, Gate::Open);
    inbox.hand_on(batch());
    let (woken, _) = wait(&inbox, HANDING, Duration::ZERO).unwrap();
    assert!(woken.idle.is_none());
    push(&inbox).unwrap();
    let (woken, taken) = wait(&inbox, WakeCondition::Syncer, Duration::ZERO).unwrap();
    assert!(woken.idle.is_none() && woken.more);
    assert_eq!(taken, 0);
    inbox.syncer_is_idle();
    assert!(wait(&inbox, HANDING, LONG).unwrap().0.idle.is_some());
}

#[test]
fn a_batch_that_lingers_waits_for_many_jobs_or_its_time() {
    let inbox = Arc::new(Inbox::new(8, Gate::Open));
    let more = |longest| WakeCondition::More { jobs: 3, longest };
    push(&inbox).unwrap();
    let (_, taken) = wait(&inbox, more(Duration::ZERO), Duration::ZERO).unwrap();
    assert_eq!(taken, 1, "its time is over");
    let pushing = inbox.clone();
    let pushed = thread::spawn(move || (0..3).for_each(|_| push(&pushing).unwrap()));
    let (_, taken) = wait(&inbox, more(LONG), LONG).unwrap();
    assert_eq!(taken, 3);
    pushed.join().unwrap();
    inbox.close();
    let (woken, taken) = wait(&inbox, more(LONG), LONG).unwrap();
    assert!(woken.closed && taken == 0);
}

#[test]
fn no_more_are_taken_than_there_is_room_for() {
    let inbox = Inbox::new(8, Gate::Open);
    (0..5).for_each(|_| push(&inbox).unwrap());
    let mut taken = VecDeque::from([Queued { lane: Lane::First, job: job() }]);
    let woken = inbox.wait(JOBS, LONG, 3, &mut taken).unwrap();
    assert_eq!((taken.len(), woken.more), (3, true));
    let woken = inbox.wait(WakeCondition::Nothing, LONG, 6, &mut taken).unwrap();
    assert_eq!((taken.len(), woken.more), (6, false));
}

#[test]
fn a_full_queue_sheds() {
    let inbox = Inbox::new(1, Gate::Open);
    push(&inbox).unwrap();
    assert_eq!(push(&inbox), Err(Unavailable::Overloaded));
    assert_eq!(wait(&inbox, JOBS, LONG).unwrap().1, 1);
    push(&inbox).unwrap();
}

#[test]
fn a_closed_one_gives_what_waits_and_takes_no_more() {
    let inbox = Inbox::new(8, Gate::Open);
    push(&inbox).unwrap();
    inbox.close();
    assert_eq!(push(&inbox), Err(Unavailable::Stopped));
    let (woken, taken) = wait(&inbox, JOBS, LONG).unwrap();
    assert!(woken.closed);
    assert_eq!(taken, 1);
    // With a pending batch, the end waits for it.
    inbox.hand_on(batch());
    let (woken, _) = wait(&inbox, HANDING, Duration::ZERO).unwrap();
    assert!(woken.closed && woken.idle.is_none());
}

#[test]
fn the_end_drops_what_waits_and_wakes_both() {
    let inbox = Arc::new(Inbox::new(8, Gate::Open));
    push(&inbox).unwrap();
    let ending = inbox.clone();
    let ended = thread::spawn(move || ending.end());
    assert!(inbox.next_batch().is_none());
    ended.join().unwrap();
    assert!(wait(&inbox, WakeCondition::Syncer, LONG).is_none());
    assert_eq!(push(&inbox), Err(Unavailable::Stopped));
}

#[test]
fn a_handover_that_ends_early_is_undone_unless_another_node_has_led_since() {
    let inbox = Inbox::new(8, Gate::Shut);
    inbox.open();
    for has_shut in [false, true] {
        inbox.begin_to_shut();
        assert!(push(&inbox).is_err());
        if has_shut {
            inbox.has_shut();
        }
        inbox.stay_open();
        assert!(inbox.is_open());
    }
    inbox.begin_to_shut();
    inbox.void(inbox.term());
    inbox.has_voided();
    inbox.is_rebuilt();
    inbox.stay_open();
    assert!(!inbox.is_open());
    inbox.open();
    inbox.begin_to_shut();
    inbox.has_shut();
    inbox.stay_shut();
    inbox.stay_open();
    assert!(!inbox.is_open());
}
