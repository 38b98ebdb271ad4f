//! Tests of single transitions.

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn record(version: &str, holder: &str) -> LeaseRecord {
    LeaseRecord {
        version: version.into(),
        holder: holder.into(),
        duration: seconds(15),
        ..LeaseRecord::default()
    }
}

fn candidate() -> Machine {
    Machine::new("identity".into(), Timing::default(), Duration::ZERO)
}

fn next(machine: &mut Machine, now: Moment) -> Step {
    machine.next(now, Duration::ZERO, true)
}

fn assert_writes(machine: &mut Machine, now: Moment, write: Write, result: WriteResult) {
    assert_eq!(next(machine, now), Step::Write(write.clone()));
    machine.write_done(&write, now, now, result);
}

/// Returns a machine that has led since second 0 with version 2.
fn leader() -> Machine {
    let mut machine = candidate();
    machine.read_done(
        Duration::ZERO,
        Duration::ZERO,
        Ok(Some(LeaseRecord { free: true, ..record("1", "") })),
    );
    assert_writes(
        &mut machine,
        Duration::ZERO,
        Write::Acquire("1".into()),
        WriteResult::Committed("2".into()),
    );
    assert_eq!(machine.leads_until(), seconds(10));
    machine
}

#[test]
fn acquires_released_lease_immediately_and_renews_every_third() {
    let mut machine = leader();
    assert_eq!(next(&mut machine, seconds(1)), Step::Wait(seconds(5)));
    assert_writes(&mut machine, seconds(5), Write::Renew("2".into()), WriteResult::Committed("3".into()));
    assert_eq!(machine.leads_until(), seconds(15));
    assert_eq!(next(&mut machine, seconds(5)), Step::Wait(seconds(10)));
}

#[test]
fn acquires_lease_that_did_not_change_for_its_duration() {
    let mut machine = candidate();
    assert_eq!(next(&mut machine, Duration::ZERO), Step::Read);
    machine.read_done(seconds(1), seconds(1), Ok(Some(record("1", "other"))));
    assert_eq!(next(&mut machine, seconds(1)), Step::Wait(seconds(16)));
    machine.watch_event(seconds(10), Some(record("2", "other")));
    assert_eq!(next(&mut machine, seconds(16)), Step::Wait(seconds(25)));
    assert_eq!(next(&mut machine, seconds(25)), Step::Read);
    machine.read_done(seconds(25), seconds(25), Ok(Some(record("2", "other"))));
    let acquire_delay = Duration::from_millis(400);
    assert_eq!(machine.next(seconds(25), acquire_delay, true), Step::Wait(seconds(25) + acquire_delay));
    assert_writes(&mut machine, seconds(26), Write::Acquire("2".into()), WriteResult::Committed("3".into()));
    assert_eq!(machine.leads_until(), seconds(36));
}

#[test]
fn lease_that_is_known_to_have_expired_is_acquired_at_once() {
    for (version, expected) in
        [("1", Step::Write(Write::Acquire("1".into()))), ("2", Step::Wait(seconds(16)))]
    {
        let mut machine = candidate().with_expired(Some("1".into()));
        assert_eq!(next(&mut machine, seconds(1)), Step::Read);
        machine.read_done(seconds(1), seconds(1), Ok(Some(record(version, "other"))));
        assert_eq!(next(&mut machine, seconds(1)), expected, "version {version}");
    }
}

#[test]
fn longer_lease_duration_applies() {
    for (written, wait) in [(1, 15), (60, 60), (1_000_000, 600)] {
        let mut machine = candidate();
        machine.read_done(
            Duration::ZERO,
            Duration::ZERO,
            Ok(Some(LeaseRecord { duration: seconds(written), ..record("1", "other") })),
        );
        assert_eq!(next(&mut machine, Duration::ZERO), Step::Wait(seconds(wait)));
    }
}

#[test]
fn candidate_without_watch_events_reads_lease() {
    let mut machine = candidate();
    machine.read_done(Duration::ZERO, Duration::ZERO, Ok(Some(record("1", "other"))));
    assert_eq!(machine.next(seconds(1), Duration::ZERO, false), Step::Wait(seconds(2)));
    assert_eq!(machine.next(seconds(2), Duration::ZERO, false), Step::Read);
}

#[test]
fn created_lease_must_age_because_a_leader_may_exist() {
    let mut machine = candidate();
    machine.read_done(Duration::ZERO, Duration::ZERO, Ok(None));
    assert_writes(&mut machine, seconds(1), Write::Create, WriteResult::Committed("1".into()));
    assert_eq!(machine.leads_until(), Duration::ZERO);
    assert_eq!(next(&mut machine, seconds(1)), Step::Wait(seconds(16)));
}

#[test]
fn emptied_lease_must_age() {
    let mut machine = candidate();
    machine.read_done(Duration::ZERO, Duration::ZERO, Ok(Some(record("1", ""))));
    assert_eq!(next(&mut machine, Duration::ZERO), Step::Wait(seconds(15)));
}

#[test]
fn leader_recreates_deleted_lease_and_keeps_leading() {
    let mut machine = leader();
    machine.watch_event(seconds(3), None);
    assert_eq!(next(&mut machine, seconds(3)), Step::Read);
    machine.read_done(seconds(3), seconds(3), Ok(None));
    assert_writes(&mut machine, seconds(3), Write::Recreate, WriteResult::Committed("9".into()));
    assert_eq!(machine.leads_until(), seconds(13));
}

#[test]
fn leader_restores_emptied_lease() {
    let mut machine = leader();
    machine.watch_event(seconds(3), Some(record("3", "")));
    assert_eq!(next(&mut machine, seconds(3)), Step::Read);
    machine.read_done(seconds(3), seconds(3), Ok(Some(record("3", ""))));
    assert_eq!(machine.leads_until(), seconds(10));
    assert_writes(&mut machine, seconds(5), Write::Renew("3".into()), WriteResult::Committed("4".into()));
}

#[test]
fn leader_stops_when_lease_has_another_holder() {
    let mut machine = leader();
    machine.watch_event(seconds(3), Some(record("3", "other")));
    assert_eq!(next(&mut machine, seconds(3)), Step::Read);
    machine.read_done(seconds(3), seconds(3), Ok(Some(record("3", "other"))));
    assert_eq!(machine.leads_until(), Duration::ZERO);
    assert_eq!(machine.lost(), Some(LossReason::HolderChanged));
    assert_eq!(next(&mut machine, seconds(3)), Step::Wait(seconds(18)));
}

#[test]
fn stale_watch_event_does_not_end_leadership() {
    let mut machine = leader();
    machine.watch_event(seconds(1), Some(record("0", "other")));
    assert_eq!(next(&mut machine, seconds(1)), Step::Read);
    machine.read_done(seconds(1), seconds(1), Ok(Some(record("2", "identity"))));
    assert_eq!(machine.leads_until(), seconds(10));
}

#[test]
fn foreign_write_to_lease_causes_one_retry() {
    let mut machine = leader();
    assert_writes(&mut machine, seconds(5), Write::Renew("2".into()), WriteResult::Rejected);
    assert_eq!(next(&mut machine, seconds(5)), Step::Read);
    machine.read_done(seconds(5), seconds(5), Ok(Some(record("3", "identity"))));
    assert_eq!(next(&mut machine, seconds(5)), Step::Wait(seconds(7)));
    assert_writes(&mut machine, seconds(7), Write::Renew("3".into()), WriteResult::Committed("4".into()));
    assert_eq!(machine.leads_until(), seconds(17));
}

#[test]
fn leader_stops_at_renew_deadline_and_leads_again_if_lease_is_unchanged() {
    let mut machine = leader();
    assert_writes(&mut machine, seconds(5), Write::Renew("2".into()), WriteResult::Unknown);
    assert_eq!(next(&mut machine, seconds(5)), Step::Wait(seconds(7)));
    assert_eq!(next(&mut machine, seconds(7)), Step::Read);
    machine.read_done(seconds(9), seconds(9), Err(()));
    assert_eq!(next(&mut machine, seconds(9)), Step::Wait(seconds(10)), "the renew deadline is first");
    assert_eq!(next(&mut machine, seconds(10)), Step::Wait(seconds(11)));
    assert_eq!(machine.lost(), Some(LossReason::Deadline));
    assert_eq!(next(&mut machine, seconds(11)), Step::Read);
    machine.read_done(seconds(11), seconds(11), Ok(Some(record("2", "identity"))));
    assert_writes(&mut machine, seconds(11), Write::Renew("2".into()), WriteResult::Committed("3".into()));
    assert_eq!(machine.leads_until(), seconds(21));
}

#[test]
fn own_lease_with_unknown_version_must_age_after_leadership() {
    let mut machine = leader();
    assert_writes(&mut machine, seconds(5), Write::Renew("2".into()), WriteResult::Unknown);
    machine.read_done(seconds(12), seconds(12), Ok(Some(record("3", "identity"))));
    assert_eq!(next(&mut machine, seconds(12)), Step::Wait(seconds(27)));
}

/// Returns a machine whose acquisition at second 1 had no response.
fn acquiring() -> Machine {
    let mut machine = candidate();
    machine.read_done(
        Duration::ZERO,
        Duration::ZERO,
        Ok(Some(LeaseRecord { free: true, ..record("1", "") })),
    );
    machine.write_done(&Write::Acquire("1".into()), seconds(1), seconds(3), WriteResult::Unknown);
    machine
}

#[test]
fn acquisition_whose_response_was_lost_is_renewed_at_once() {
    let mut machine = acquiring();
    machine.read_done(seconds(5), seconds(5), Ok(Some(record("2", "identity"))));
    assert_eq!(machine.leads_until(), Duration::ZERO, "a read is no proof");
    assert_writes(&mut machine, seconds(5), Write::Renew("2".into()), WriteResult::Committed("3".into()));
    assert_eq!(machine.leads_until(), seconds(15));
}

#[test]
fn lost_acquisition_that_is_found_too_late_must_age() {
    for (at, holder) in [(11, "identity"), (5, "other"), (5, "")] {
        let mut machine = acquiring();
        machine.read_done(seconds(at), seconds(at), Ok(Some(record("2", holder))));
        assert_eq!(next(&mut machine, seconds(at)), Step::Wait(seconds(at + 15)), "{holder} at {at} s");
    }
}

#[test]
fn resigning_candidate_releases_a_lease_that_it_acquired_without_a_response() {
    let mut machine = acquiring();
    machine.read_done(seconds(5), seconds(5), Ok(Some(record("2", "identity"))));
    machine.resign(seconds(5));
    assert_writes(&mut machine, seconds(5), Write::Release("2".into()), WriteResult::Committed("3".into()));
    assert_eq!(next(&mut machine, seconds(5)), Step::Done);
}

#[test]
fn lease_duration_counts_from_start_of_write() {
    let mut machine = candidate();
    machine.read_done(
        Duration::ZERO,
        Duration::ZERO,
        Ok(Some(LeaseRecord { free: true, ..record("1", "") })),
    );
    machine.write_done(
        &Write::Acquire("1".into()),
        seconds(1),
        seconds(4),
        WriteResult::Committed("2".into()),
    );
    assert_eq!(machine.leads_until(), seconds(11));
}

#[test]
fn resigning_leader_releases_its_lease() {
    let mut machine = leader();
    machine.resign(seconds(3));
    assert_eq!(machine.leads_until(), Duration::ZERO);
    assert_writes(&mut machine, seconds(3), Write::Release("2".into()), WriteResult::Rejected);
    assert_eq!(next(&mut machine, seconds(3)), Step::Read);
    machine.read_done(seconds(3), seconds(3), Ok(Some(record("3", "identity"))));
    assert_writes(&mut machine, seconds(5), Write::Release("3".into()), WriteResult::Committed("4".into()));
    assert_eq!(next(&mut machine, seconds(5)), Step::Done);
}

#[test]
fn candidate_that_never_led_releases_nothing() {
    let mut machine = candidate();
    machine.read_done(Duration::ZERO, Duration::ZERO, Ok(Some(record("1", "other"))));
    machine.resign(seconds(1));
    assert_eq!(next(&mut machine, seconds(1)), Step::Done);
}

#[test]
fn lease_recreated_after_deadline_grants_no_leadership() {
    let mut machine = leader();
    machine.read_done(seconds(8), seconds(8), Ok(None));
    assert_eq!(next(&mut machine, seconds(8)), Step::Write(Write::Recreate));
    // Before the response arrives, another candidate can have led with its own Lease and deleted
    // it.
    machine.write_done(&Write::Recreate, seconds(8), seconds(11), WriteResult::Committed("9".into()));
    assert!(machine.leads_until() <= seconds(11), "{:?}", machine.leads_until());
}

#[test]
fn lease_released_by_another_holder_is_not_held() {
    let mut machine = leader();
    machine.read_done(seconds(1), seconds(1), Ok(Some(LeaseRecord { free: true, ..record("9", "") })));
    assert_eq!(machine.leads_until(), Moment::ZERO);
    assert_eq!(machine.lost(), Some(LossReason::HolderChanged));
}

#[test]
fn only_answers_that_decide_a_write_are_rejections() {
    for status in [400, 401, 403, 404, 409, 422] {
        assert_eq!(WriteResult::of_error(status), WriteResult::Rejected, "{status}");
    }
    for status in [0, 307, 408, 429, 500, 502, 503, 504] {
        assert_eq!(WriteResult::of_error(status), WriteResult::Unknown, "{status}");
    }
}

#[test]
fn candidate_that_was_asked_to_pause_reads_after_a_pause() {
    for (status, next_step) in [(409, Step::Read), (429, Step::Wait(seconds(7)))] {
        let mut machine = leader();
        let renew = Write::Renew("2".into());
        assert_writes(&mut machine, seconds(5), renew, WriteResult::of_error(status));
        assert_eq!(next(&mut machine, seconds(5)), next_step, "{status}");
    }
}
