//! Which backups and which WAL are no longer needed.

mod prune;

use jiff::{SignedDuration, Timestamp};
use postgres_model::{
    archive::BackupId,
    timeline::History,
    wal_file::{SegmentSize, WalSegment},
};

pub use self::prune::Pruned;
use crate::backup::{Backup, Backups, Chains};

/// Hours of a day.
const DAY: i64 = 24;

/// How long backups are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Days that a recovery can go back: a backup goes only if a younger one ended before them.
    /// `None`: the number of backups alone decides.
    pub days: Option<u32>,
    /// Backups that stay at least. Zero means one: the last backup never goes.
    pub minimum: u32,
}

/// What a retention removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetentionPlan {
    /// Complete backups to remove, oldest first.
    pub backups: Vec<BackupId>,
    /// Incomplete backups to remove, oldest first.
    pub incomplete: Vec<BackupId>,
    /// First WAL that stays. `None`: all WAL stays.
    pub first_wal: Option<FirstWal>,
}

/// First WAL that stays. Segments of all timelines with lower positions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstWal {
    /// The segment.
    pub segment: WalSegment,
    /// Size of segments.
    pub size: SegmentSize,
}

impl FirstWal {
    /// Returns whether a segment of any timeline is before the first one, so that no recovery from a
    /// backup that stays reads it. Names that segments of this size do not have stay.
    pub fn is_after(&self, segment: WalSegment) -> bool {
        let (first, start) = (self.segment.start(self.size), segment.start(self.size));
        first.zip(start).is_some_and(|(first, start)| start < first)
    }
}

/// Returns what is no longer needed.
///
/// `history` is that of the present timeline, as the primary knows it. Only backups that ended on it count, because a recovery
/// to the present needs one of them. A backup on a branch that a failover left goes together with the
/// backups of its age.
///
/// - A backup goes when a younger one ended at least `days` ago, and at least `minimum` younger ones
///   stay.
/// - A backup on which one that stays is based, directly or through others, stays, and all younger ones.
/// - An incomplete backup goes when a complete one is younger. Call this when no backup is being
///   written: one that is removed while it is written cannot be completed.
/// - A segment of WAL goes, on whatever timeline it is, when all its positions are before the begin of
///   every backup that stays. A recovery reads WAL from the begin of its backup on, and descendants of
///   the timeline of a backup fork after its end. So no recovery from a backup that stays reads an
///   earlier position, on any timeline.
/// - All backups and WAL stay if a manifest cannot be read: its backup can be based on any of them. WAL stays if
///   backups have segments of different sizes.
/// - Timeline histories stay: they are small, and every recovery needs those of its ancestors.
pub fn plan_retention(
    backups: &Backups,
    history: &History,
    policy: RetentionPolicy,
    now: Timestamp,
) -> RetentionPlan {
    let mut useful: Vec<_> = backups.complete.iter().filter(|backup| backup.is_on(history)).collect();
    useful.sort_by_key(|backup| age(backup));
    let (Some(oldest), Some(newest)) = (oldest_kept(&useful, policy, now), useful.last()) else {
        return RetentionPlan::default();
    };
    let oldest = oldest_needed(&backups.complete, oldest);
    let stays = |backup: &&Backup| age(backup) >= age(oldest);
    let incomplete = backups.incomplete.iter().filter(|id| **id < newest.id).cloned().collect();
    if !backups.unreadable.is_empty() {
        return RetentionPlan { incomplete, ..RetentionPlan::default() };
    }
    let go = backups.complete.iter().filter(|backup| !stays(backup)).map(|backup| backup.id.clone());
    let first_wal = first_wal(backups.complete.iter().filter(stays));
    RetentionPlan { backups: go.collect(), incomplete, first_wal }
}

/// Orders backups by age: oldest first.
fn age(backup: &Backup) -> (Timestamp, &BackupId) {
    (backup.stopped_at, &backup.id)
}

/// Returns the oldest backup that stays, of backups in the order of their age.
fn oldest_kept<'a>(useful: &[&'a Backup], policy: RetentionPolicy, now: Timestamp) -> Option<&'a Backup> {
    let minimum = usize::try_from(policy.minimum.max(1)).unwrap_or(usize::MAX);
    let by_minimum = useful.len().checked_sub(minimum)?;
    let by_days = policy.days.map(|days| {
        let covers = |backup: &&Backup| start_of(days, now).is_some_and(|start| backup.stopped_at <= start);
        useful.iter().rposition(covers).unwrap_or_default()
    });
    useful.get(by_days.map_or(by_minimum, |by_days| by_days.min(by_minimum))).copied()
}

/// Returns the oldest backup that one of the age of `oldest`, or a younger one, needs.
fn oldest_needed<'a>(complete: &'a [Backup], oldest: &'a Backup) -> &'a Backup {
    let chains = Chains::new(complete);
    let mut by_age: Vec<_> = complete.iter().collect();
    by_age.sort_by_key(|backup| std::cmp::Reverse(age(backup)));
    by_age.into_iter().fold(oldest, |oldest, backup| {
        let base = chains.base(backup).filter(|_| age(backup) >= age(oldest));
        base.filter(|base| age(base) < age(oldest)).unwrap_or(oldest)
    })
}

/// Returns the moment some days ago: `None` if it is before all time.
fn start_of(days: u32, now: Timestamp) -> Option<Timestamp> {
    now.checked_sub(SignedDuration::from_hours(DAY * i64::from(days))).ok()
}

impl Backups {
    /// Returns the first WAL that the backups need: `None` if that is not known.
    fn first_wal(&self) -> Option<FirstWal> {
        if self.unreadable.is_empty() { first_wal(self.complete.iter()) } else { None }
    }
}

/// Returns the first WAL that backups need: `None` without a backup, or with segments of two sizes.
fn first_wal<'a>(backups: impl Iterator<Item = &'a Backup> + Clone) -> Option<FirstWal> {
    let first = backups.clone().min_by_key(|backup| backup.begin_lsn)?;
    let is_one_size = { backups }.all(|backup| backup.segment_size == first.segment_size);
    is_one_size.then_some(FirstWal { segment: first.begin_wal, size: first.segment_size })
}

#[cfg(test)]
mod tests;
