//! Whether a recovery can reach its target, before it begins.

use std::{cmp::Reverse, collections::BTreeMap, fmt};

use jiff::{SignedDuration, Timestamp};
use postgres_model::{archive::BackupId, lsn::Lsn, timeline::History, wal_file::WalSegment};

use crate::{
    backup::{Backup, Chains},
    wal::Row,
};

/// How far the clocks of the database and of the store may differ.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Where a recovery ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryTarget {
    /// At the end of the archive.
    Latest,
    /// As soon as the data of the newest backup is consistent.
    Immediate,
    /// At a moment.
    Time(Timestamp),
    /// At a position.
    Lsn(Lsn),
}

/// A recovery that can reach its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryPlan {
    /// Backup to restore.
    pub backup: BackupId,
    /// First segment that the recovery reads.
    pub first: WalSegment,
    /// Last segment that was checked. With the targets `Latest` and `Time`, all segments up to it are
    /// there, and where the recovery ends is not known before.
    pub last: WalSegment,
}

/// Why a recovery cannot reach its target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// No backup ends before the target on the timeline.
    #[error(
        "cannot recover to {target}: no complete backup on the history of timeline {timeline} ends before it; \
         choose a later target, or another timeline"
    )]
    NoBackup {
        /// The target.
        target: RecoveryTarget,
        /// Timeline to recover to.
        timeline: u32,
    },
    /// A segment between the backup and the target is missing.
    #[error(
        "cannot recover to {target} from the backup {backup}: the archive lacks the WAL segment {segment}; \
         choose a target before it, or wait until it is archived"
    )]
    MissingWal {
        /// The target.
        target: RecoveryTarget,
        /// Newest backup before the target.
        backup: BackupId,
        /// First segment that is missing.
        segment: WalSegment,
    },
    /// The archive ends before the target.
    #[error(
        "cannot recover to the time {time}: the last segment was archived at {archived_at}; choose an earlier time, or \
         recover to the end of the archive"
    )]
    AfterArchive {
        /// The target.
        time: Timestamp,
        /// When the last segment on the timeline was archived.
        archived_at: Timestamp,
    },
}

/// Chooses the newest complete backup before the target that has all those on which it is based, and checks that all segments from its begin to
/// the target are in the archive, across the timelines of a history.
///
/// The arguments are listings: [`Archive::backups`](crate::Archive::backups),
/// [`Archive::history`](crate::Archive::history) of the timeline to recover to, and
/// [`Archive::all_segments`](crate::Archive::all_segments) with the time at which each was archived.
///
/// Where a moment is in the WAL is not known before
/// it is replayed, so with the target `Time` the segments are checked up to the first backup that began
/// after it, or up to the end of the archive. To exclude a backup, leave it out of `backups`.
///
/// # Errors
/// Returns an error that names what is missing.
pub fn check_recovery(
    backups: &[Backup],
    history: &History,
    segments: &BTreeMap<WalSegment, Timestamp>,
    target: RecoveryTarget,
) -> Result<RecoveryPlan, RecoveryError> {
    let on_history = || backups.iter().filter(|backup| backup.is_on(history));
    let chains = Chains::new(backups);
    let mut before: Vec<_> = on_history().filter(|backup| target.is_after(backup)).collect();
    before.sort_by_key(|backup| Reverse((backup.stopped_at, backup.end_lsn)));
    let no_backup = || RecoveryError::NoBackup { target, timeline: history.timeline().get() };
    let backup = before.into_iter().find(|backup| chains.of(&backup.id).is_some()).ok_or_else(no_backup)?;
    let row = Row::new(history, backup.segment_size);
    let archive = ArchiveEnd::of(&row, history, segments);
    let number = |segment| row.number(segment).unwrap_or_default();
    let (first, end) = (number(backup.begin_wal), number(backup.end_wal));
    let (last, until) = match target {
        RecoveryTarget::Immediate => (end, None),
        RecoveryTarget::Lsn(lsn) => (backup.segment_size.segment_number(lsn), Some(lsn)),
        RecoveryTarget::Latest => (archive.number, None),
        RecoveryTarget::Time(time) => {
            archive.check(time)?;
            let later = on_history().filter(|backup| backup.started_at > time);
            let later = later.min_by_key(|backup| (backup.started_at, Reverse(backup.end_lsn)));
            (later.map_or(archive.number, |later| number(later.end_wal)), None)
        }
    };
    // The data is not consistent before the end of the backup.
    let last = last.max(end);
    let missing = row.missing(first, last, until, |segment| segments.contains_key(&segment));
    if let Some(segment) = missing {
        return Err(RecoveryError::MissingWal { target, backup: backup.id.clone(), segment });
    }
    let last = row.segment(last).unwrap_or(backup.end_wal);
    Ok(RecoveryPlan { backup: backup.id.clone(), first: backup.begin_wal, last })
}

impl RecoveryTarget {
    /// Returns whether a recovery from a backup can reach the target.
    fn is_after(self, backup: &Backup) -> bool {
        match self {
            Self::Latest | Self::Immediate => true,
            Self::Time(time) => backup.stopped_at <= time,
            Self::Lsn(lsn) => backup.end_lsn <= lsn,
        }
    }
}

/// Last segment of a row that is in the archive.
struct ArchiveEnd {
    number: u64,
    archived_at: Option<Timestamp>,
}

impl ArchiveEnd {
    fn of(row: &Row<'_>, history: &History, segments: &BTreeMap<WalSegment, Timestamp>) -> Self {
        let timelines = history.switches().map(|(timeline, _)| timeline).chain([history.timeline()]);
        let ranges = timelines.filter_map(|timeline| row.numbers(timeline));
        let last = ranges.filter_map(|(first, last)| {
            let mut range = segments.range(row.segment(first)?..=row.segment(last)?).rev();
            range.find_map(|(segment, time)| Some((row.number(*segment)?, *time)))
        });
        let last = last.max();
        Self { number: last.map_or(0, |(number, _)| number), archived_at: last.map(|(_, time)| time) }
    }

    /// Returns an error if a moment is later than the last segment. PostgreSQL would replay everything
    /// and then fail, because no transaction after the moment tells it that it is reached.
    fn check(&self, time: Timestamp) -> Result<(), RecoveryError> {
        let Some(archived_at) = self.archived_at else { return Ok(()) };
        let latest = archived_at.saturating_add(CLOCK_SKEW).unwrap_or(Timestamp::MAX);
        if time > latest { Err(RecoveryError::AfterArchive { time, archived_at }) } else { Ok(()) }
    }
}

/// Prints the target for a sentence: `the time 2026-11-24T12:00:00Z`.
impl fmt::Display for RecoveryTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("the end of the archive"),
            Self::Immediate => f.write_str("the end of a backup"),
            Self::Time(time) => write!(f, "the time {time}"),
            Self::Lsn(lsn) => write!(f, "the position {lsn}"),
        }
    }
}

#[cfg(test)]
mod tests;
