use std::iter;

use proptest::prelude::*;

use super::*;
use crate::{
    backup::UnreadableBackup,
    error::ArchiveError,
    tests::{Life, backup, lives, timeline},
};

const SECONDS_OF_A_DAY: i64 = 86_400;
const NOW: i64 = 1_800_000_000;

fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Returns backups on timeline 1 that ended some days ago, one segment after the other.
fn daily(days_ago: &[i64]) -> Backups {
    let backups = (1..).zip(days_ago).map(|(number, days): (u64, _)| {
        backup(1, number << 24, (number << 24) + 1, NOW - days * SECONDS_OF_A_DAY)
    });
    Backups { complete: backups.collect(), ..Backups::default() }
}

fn policy(days: Option<u32>, minimum: u32) -> RetentionPolicy {
    RetentionPolicy { days, minimum }
}

/// Returns how many backups go, and the number of the first segment that stays.
fn result(backups: &Backups, policy: RetentionPolicy) -> (usize, Option<u64>) {
    let plan = plan_retention(backups, &History::first(), policy, timestamp(NOW));
    let first = plan.first_wal.map(|first| first.segment.start(first.size).unwrap().0 >> 24);
    (plan.backups.len(), first)
}

#[test]
fn younger_backup_must_cover_the_days() {
    let backups = daily(&[9, 8, 7, 3, 1]);
    assert_eq!(result(&backups, policy(Some(7), 1)), (2, Some(3)));
    assert_eq!(result(&backups, policy(Some(6), 1)), (2, Some(3)));
    assert_eq!(result(&backups, policy(Some(10), 1)), (0, Some(1)));
    assert_eq!(result(&backups, policy(Some(0), 1)), (4, Some(5)));
    assert_eq!(result(&backups, policy(Some(u32::MAX), 1)), (0, Some(1)));
}

#[test]
fn minimum_stays() {
    let backups = daily(&[9, 8, 7, 3, 1]);
    assert_eq!(result(&backups, policy(None, 2)), (3, Some(4)));
    assert_eq!(result(&backups, policy(Some(0), 4)), (1, Some(2)));
    assert_eq!(result(&backups, policy(None, 0)), (4, Some(5)));
    assert_eq!(result(&backups, policy(None, 6)), (0, None));
    assert_eq!(result(&daily(&[]), policy(Some(1), 1)), (0, None));
}

#[test]
fn backup_on_a_branch_that_was_left_does_not_count() {
    let history = History::parse(timeline(2), "1\t0/2800000\n").unwrap();
    let backups = daily(&[5, 4, 3]);
    let plan = plan_retention(&backups, &history, policy(None, 1), timestamp(NOW));
    // The second and the third one ended after the fork: the first one is needed.
    let names: Vec<_> = plan.backups.iter().map(ToString::to_string).collect();
    assert_eq!(names, [backups.complete[0].id.to_string()]);
    let plan = plan_retention(&daily(&[5]), &history, policy(None, 1), timestamp(NOW));
    assert_eq!(plan.backups, []);
}

#[test]
fn incomplete_backup_goes_when_a_complete_one_is_younger() {
    let mut backups = daily(&[5, 3]);
    let id = |days: i64| backup(1, 1, 2, NOW - days * SECONDS_OF_A_DAY).id;
    backups.incomplete = vec![id(6), id(4), id(2)];
    let plan = plan_retention(&backups, &History::first(), policy(Some(30), 1), timestamp(NOW));
    assert_eq!(plan.incomplete, [id(6), id(4)]);
    backups.complete.clear();
    let plan = plan_retention(&backups, &History::first(), policy(Some(30), 1), timestamp(NOW));
    assert_eq!(plan, RetentionPlan::default());
}

#[test]
fn backups_on_which_others_are_based_stay() {
    let mut backups = daily(&[9, 8, 7, 3, 1]);
    let ids: Vec<_> = backups.complete.iter().map(|backup| backup.id.clone()).collect();
    // The third one is full again.
    for (number, base) in [(1, 0), (3, 2), (4, 3)] {
        backups.complete[number].based_on = Some(ids[base].clone());
    }
    assert_eq!(result(&backups, policy(None, 1)), (2, Some(3)));
    assert_eq!(result(&backups, policy(None, 3)), (2, Some(3)));
    assert_eq!(result(&backups, policy(None, 4)), (0, Some(1)));
    // One that is needed needs others itself, which are on a branch that was left.
    backups.complete[2].based_on = Some(ids[0].clone());
    assert_eq!(result(&backups, policy(None, 1)), (0, Some(1)));
}

#[test]
fn unreadable_manifest_keeps_all_backups_and_wal() {
    let mut backups = daily(&[5, 3]);
    let id = backups.complete[0].id.clone();
    backups.unreadable.push(UnreadableBackup { error: ArchiveError::NoBackup(id.clone()), id });
    assert_eq!(result(&backups, policy(None, 1)), (0, None));
}

#[test]
fn segments_of_two_sizes_keep_all_wal() {
    let mut backups = daily(&[5, 3, 1]);
    backups.complete[2].segment_size = SegmentSize::from_bytes(64 << 20).unwrap();
    backups.complete[2].begin_wal =
        WalSegment::at(timeline(1), backups.complete[2].begin_lsn, backups.complete[2].segment_size);
    backups.complete[2].end_wal = backups.complete[2].begin_wal;
    assert_eq!(result(&backups, policy(None, 2)), (1, None));
}

fn listing(life: &Life) -> Backups {
    Backups { complete: life.backups.clone(), ..Backups::default() }
}

fn policies() -> impl Strategy<Value = RetentionPolicy> {
    (prop::option::of(0..8_u32), 0..4_u32).prop_map(|(days, minimum)| policy(days, minimum))
}

proptest! {
    #[test]
    fn backup_that_stays_loses_no_segment_that_a_recovery_needs(life in lives(), policy in policies()) {
        let plan = plan_retention(&listing(&life), life.history(), policy, life.now);
        for backup in life.backups.iter().filter(|backup| !plan.backups.contains(&backup.id)) {
            let lost = life.needed(backup).into_iter().find(|segment| {
                plan.first_wal.is_some_and(|first| first.is_after(*segment))
            });
            prop_assert_eq!(lost, None, "{}", backup.id);
        }
    }

    #[test]
    fn enough_backups_of_the_present_timeline_stay(life in lives(), policy in policies()) {
        let plan = plan_retention(&listing(&life), life.history(), policy, life.now);
        let useful = || life.backups.iter().filter(|backup| backup.is_on(life.history()));
        let stay = || useful().filter(|backup| !plan.backups.contains(&backup.id));
        let minimum = usize::try_from(policy.minimum.max(1)).unwrap();
        prop_assert!(stay().count() >= minimum.min(useful().count()));
        if let Some(days) = policy.days {
            let start = timestamp(life.now.as_second() - i64::from(days) * SECONDS_OF_A_DAY);
            let covers = |backup: &Backup| backup.stopped_at <= start;
            prop_assert_eq!(stay().any(covers), useful().any(covers));
        }
    }

    #[test]
    fn second_retention_removes_nothing(life in lives(), policy in policies()) {
        let mut backups = listing(&life);
        let plan = plan_retention(&backups, life.history(), policy, life.now);
        // As after an interruption between the manifests and the parts.
        backups.complete.retain(|backup| !plan.backups.contains(&backup.id));
        backups.incomplete.clone_from(&plan.backups);
        let again = plan_retention(&backups, life.history(), policy, life.now);
        prop_assert_eq!(again.backups, []);
        prop_assert_eq!(again.incomplete, plan.backups);
        prop_assert_eq!(again.first_wal, plan.first_wal);
    }

    #[test]
    fn wal_before_every_backup_goes(life in lives(), policy in policies()) {
        let plan = plan_retention(&listing(&life), life.history(), policy, life.now);
        let stay = life.backups.iter().filter(|backup| !plan.backups.contains(&backup.id));
        let begin = stay.map(|backup| backup.begin_lsn).min();
        if let (Some(first), Some(begin)) = (plan.first_wal, begin) {
            for (segment, number) in life.segments.keys().zip(iter::repeat(begin.0 >> 24)) {
                let is_before = segment.start(first.size).unwrap().0 >> 24 < number;
                prop_assert_eq!(first.is_after(*segment), is_before);
            }
        }
    }
}
