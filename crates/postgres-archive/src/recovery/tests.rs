use proptest::{prelude::*, sample::Index};

use super::*;
use crate::tests::{Life, SEGMENT, backup, lives, timeline};

const HOUR: i64 = 3600;
const BEGAN: i64 = 1_800_000_000;

fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn history(number: u32, text: &str) -> History {
    History::parse(timeline(number), text).unwrap()
}

/// Returns segments of a timeline by their numbers, which were archived hour by hour.
fn segments(number: u32, numbers: std::ops::RangeInclusive<u64>) -> BTreeMap<WalSegment, Timestamp> {
    let timeline = timeline(number);
    let size = postgres_model::wal_file::SegmentSize::DEFAULT;
    let segment = |number| WalSegment::at(timeline, Lsn(number * SEGMENT), size);
    let archived_at = |number| timestamp(BEGAN + i64::try_from(number).unwrap() * HOUR);
    numbers.map(|number| (segment(number), archived_at(number))).collect()
}

/// Returns backups that ended 3 and 6 hours after the begin, in segments 3 and 6.
fn backups() -> Vec<Backup> {
    let backup = |hour: u32| {
        let begin = u64::from(hour) * SEGMENT;
        backup(1, begin, begin + 100, BEGAN + i64::from(hour) * HOUR)
    };
    vec![backup(3), backup(6)]
}

fn names(plan: Result<RecoveryPlan, RecoveryError>) -> (String, String, String) {
    let plan = plan.unwrap();
    (plan.backup.to_string(), plan.first.to_string(), plan.last.to_string())
}

fn check(
    segments: &BTreeMap<WalSegment, Timestamp>,
    target: RecoveryTarget,
) -> Result<RecoveryPlan, RecoveryError> {
    check_recovery(&backups(), &History::first(), segments, target)
}

#[test]
fn newest_backup_before_the_target_is_chosen() {
    let all = segments(1, 1..=9);
    let [first, second] = backups().try_into().unwrap();
    for (target, chosen, begin, last) in [
        (RecoveryTarget::Latest, &second, 6, 9),
        (RecoveryTarget::Immediate, &second, 6, 6),
        (RecoveryTarget::Lsn(Lsn(6 * SEGMENT + 100)), &second, 6, 6),
        (RecoveryTarget::Lsn(Lsn(6 * SEGMENT + 99)), &first, 3, 6),
        (RecoveryTarget::Lsn(Lsn(8 * SEGMENT)), &second, 6, 8),
        (RecoveryTarget::Time(timestamp(BEGAN + 6 * HOUR)), &second, 6, 9),
        // The second backup began later, so the time is before its end.
        (RecoveryTarget::Time(timestamp(BEGAN + 6 * HOUR - 1)), &first, 3, 6),
    ] {
        let expected = (chosen.id.to_string(), format!("{begin:024X}"), format!("{last:024X}"));
        let (backup, begin, last) = names(check(&all, target));
        assert_eq!(backup, expected.0, "{target}");
        assert_eq!(
            (begin[8..].to_owned(), last[8..].to_owned()),
            (expected.1[8..].to_owned(), expected.2[8..].to_owned()),
            "{target}"
        );
    }
}

#[test]
fn incremental_backup_without_its_base_is_not_chosen() {
    let all = segments(1, 1..=9);
    let mut backups = backups();
    backups[1].based_on = Some(backups[0].id.clone());
    let check = |backups: &[Backup]| check_recovery(backups, &History::first(), &all, RecoveryTarget::Latest);
    assert_eq!(check(&backups).unwrap().backup, backups[1].id);
    assert!(matches!(check(&backups[1..]), Err(RecoveryError::NoBackup { .. })));
    let mut other = backups[1].clone();
    other.based_on = Some("20200101T000000Z-00000001".parse().unwrap());
    assert_eq!(check(&[backups[0].clone(), other]).unwrap().backup, backups[0].id);
}

#[test]
fn target_before_all_backups_is_refused() {
    let all = segments(1, 1..=9);
    for target in [RecoveryTarget::Lsn(Lsn(3 * SEGMENT + 99)), RecoveryTarget::Time(timestamp(BEGAN))] {
        let error = check(&all, target).unwrap_err();
        assert_eq!(error, RecoveryError::NoBackup { target, timeline: 1 });
    }
    let error = check_recovery(&[], &History::first(), &all, RecoveryTarget::Latest).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot recover to the end of the archive: no complete backup on the history of timeline 1 ends before \
         it; choose a later target, or another timeline"
    );
}

#[test]
fn hole_is_named() {
    let mut holed = segments(1, 1..=9);
    holed.retain(|segment, _| segment.to_string() != "000000010000000000000008");
    let error = check(&holed, RecoveryTarget::Latest).unwrap_err().to_string();
    assert!(error.contains("the archive lacks the WAL segment 000000010000000000000008"), "{error}");
    assert!(check(&holed, RecoveryTarget::Lsn(Lsn(8 * SEGMENT - 1))).is_ok());
    assert!(check(&holed, RecoveryTarget::Lsn(Lsn(8 * SEGMENT))).is_err());
    // The time is before the second backup, and the hole is after it.
    assert!(check(&holed, RecoveryTarget::Time(timestamp(BEGAN + 4 * HOUR))).is_ok());
    assert!(check(&holed, RecoveryTarget::Time(timestamp(BEGAN + 7 * HOUR))).is_err());
}

#[test]
fn target_after_the_archive_is_refused() {
    let all = segments(1, 1..=9);
    assert!(check(&all, RecoveryTarget::Lsn(Lsn(10 * SEGMENT))).is_err());
    let last = timestamp(BEGAN + 9 * HOUR);
    let time = |seconds| RecoveryTarget::Time(timestamp(BEGAN + 9 * HOUR + seconds));
    assert!(check(&all, time(300)).is_ok());
    let error = check(&all, time(301)).unwrap_err();
    assert!(
        matches!(error, RecoveryError::AfterArchive { archived_at, .. } if archived_at == last),
        "{error}"
    );
}

#[test]
fn backup_needs_the_wal_up_to_its_end() {
    let target = RecoveryTarget::Immediate;
    let error = check(&segments(1, 1..=5), target).unwrap_err();
    assert!(matches!(error, RecoveryError::MissingWal { .. }), "{error}");
    let error = check(&BTreeMap::new(), RecoveryTarget::Latest).unwrap_err();
    assert!(matches!(error, RecoveryError::MissingWal { .. }), "{error}");
}

#[test]
fn row_follows_the_timelines() {
    let history = history(2, "1\t0/8000100\n");
    let mut archive = segments(1, 1..=9);
    let check =
        |archive: &BTreeMap<_, _>| check_recovery(&backups(), &history, archive, RecoveryTarget::Latest);
    // Nothing of timeline 2 is archived yet: the archive ends before the fork.
    assert_eq!(names(check(&archive)).2, "000000010000000000000007");
    archive.extend(segments(2, 9..=10));
    let error = check(&archive).unwrap_err().to_string();
    assert!(error.contains("000000020000000000000008"), "{error}");
    archive.extend(segments(2, 8..=8));
    assert_eq!(names(check(&archive)).2, "00000002000000000000000A");
}

#[test]
fn backup_after_the_fork_is_on_another_branch() {
    let history = history(2, "1\t0/6000050\n");
    let archive = segments(1, 1..=9);
    let plan = check_recovery(&backups(), &history, &archive, RecoveryTarget::Latest);
    assert_eq!(plan.unwrap().backup, backups()[0].id);
}

#[test]
fn hostile_names_and_positions_are_harmless() {
    let mut archive = segments(1, 1..=9);
    for name in ["00000001FFFFFFFFFFFFFFFF", "0000000100000000FFFFFFFF", "FFFFFFFFFFFFFFFFFFFFFFFF"] {
        let Ok(postgres_model::wal_file::WalFileName::Segment(segment)) = name.parse() else {
            panic!("{name}")
        };
        archive.insert(segment, timestamp(BEGAN));
    }
    assert_eq!(names(check(&archive, RecoveryTarget::Latest)).2, "000000010000000000000009");
    assert!(check(&archive, RecoveryTarget::Lsn(Lsn(u64::MAX))).is_err());
}

fn check_life(life: &Life, target: RecoveryTarget) -> Result<RecoveryPlan, RecoveryError> {
    check_recovery(&life.backups, life.history(), &life.segments, target)
}

proptest! {
    #[test]
    fn complete_archive_can_be_recovered(life in lives(), lsn: Index) {
        let useful = life.backups.iter().filter(|backup| backup.is_on(life.history()));
        let newest = useful.max_by_key(|backup| backup.stopped_at);
        match (check_life(&life, RecoveryTarget::Latest), newest) {
            (Ok(plan), Some(newest)) => {
                prop_assert_eq!(&plan.backup, &newest.id);
                let last = life.needed_on(newest, life.history()).pop();
                prop_assert_eq!(Some(plan.last), last);
            }
            (Err(RecoveryError::NoBackup { .. }), None) => {}
            (result, newest) => prop_assert!(false, "{result:?} {newest:?}"),
        }
        if let Some(newest) = newest {
            let last = life.needed_on(newest, life.history()).len() as u64;
            let lsn = newest.end_lsn.0 + lsn.index(usize::try_from(last * SEGMENT).unwrap()) as u64;
            let end = (newest.begin_lsn.0 / SEGMENT + last) * SEGMENT;
            prop_assert_eq!(check_life(&life, RecoveryTarget::Lsn(Lsn(lsn))).is_ok(), lsn < end);
        }
    }

    #[test]
    fn any_missing_segment_is_found(life in lives(), index: Index) {
        let useful = life.backups.iter().filter(|backup| backup.is_on(life.history()));
        let Some(newest) = useful.max_by_key(|backup| backup.stopped_at) else { return Ok(()) };
        let needed = life.needed_on(newest, life.history());
        let missing = *index.get(&needed);
        let mut holed = life.clone();
        holed.segments.remove(&missing);
        match check_life(&holed, RecoveryTarget::Latest) {
            Err(RecoveryError::MissingWal { segment, .. }) => prop_assert_eq!(segment, missing),
            // Without the last one, the archive ends earlier, unless the backup needs it.
            Ok(plan) => {
                prop_assert_eq!(Some(&missing), needed.last());
                prop_assert!(plan.last < missing);
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
