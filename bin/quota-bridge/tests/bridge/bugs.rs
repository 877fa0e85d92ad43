//! Each planted bug is found by the test that is there for it.

use std::panic::catch_unwind;

use planted::Bug;

use super::{leaders, lists, watermarks};

/// The test fails with the bug, and says this.
fn found(bug: Bug, test: fn(), says: &str) {
    planted::plant(Some(bug));
    let result = catch_unwind(test);
    planted::plant(None);
    let Err(panic) = result else {
        panic!("not found: {}", bug.what());
    };
    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains(says), "{}: {text}", bug.what());
}

#[test]
fn ids_by_version_are_found() {
    let test = leaders::one_of_two_leads_and_the_other_takes_over;
    found(Bug::IdsByVersion, test, "ended, and alive");
}

#[test]
fn an_end_before_the_last_page_is_found() {
    let test = lists::a_second_list_in_pages_ends_nothing_that_lives;
    found(Bug::EndBeforeLastPage, test, "ended, and alive");
}

#[test]
fn a_filter_that_is_kept_is_found() {
    let test = leaders::who_leads_again_lists_everything;
    found(Bug::FilterKept, test, "ended, and alive");
}

#[test]
fn a_watermark_without_a_quorum_is_found() {
    let test = watermarks::an_api_server_that_is_cut_off_from_etcd_gives_no_watermark;
    found(
        Bug::WatermarkWithoutQuorum,
        test,
        "a watermark without a quorum",
    );
}
