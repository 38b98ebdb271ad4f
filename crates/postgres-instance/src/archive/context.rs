//! What decides about the archive: the settings, and what this member is.

use std::sync::Arc;

use postgres_model::{
    instance::Moment,
    system_identifier::SystemIdentifier,
    timeline::{History, TimelineId},
    wal_file::{SegmentSize, WalFileName},
};

use super::{settings::BackupSettings, source::Recovery};

/// What decides about the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context {
    /// Where to archive. `None`: nowhere.
    pub(crate) settings: Option<Arc<BackupSettings>>,
    /// Name of the PostgresCluster.
    pub(crate) cluster: String,
    /// UID of the PostgresCluster.
    pub(crate) cluster_uid: String,
    /// The database.
    pub(crate) system: Option<SystemIdentifier>,
    /// What this member is.
    pub(crate) role: Role,
    /// When PostgreSQL was asked to stop.
    pub(crate) stopping: Option<Moment>,
    /// Identifier of the last backup that the cluster knows. A new one is a reason for a retention.
    pub(crate) last_backup: String,
}

/// What a member may do with the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// It waits: sealed, stopped, or without a primary. It reads nothing and writes nothing.
    #[default]
    Waiting,
    /// It writes on the timeline with this history, and holds the Lease.
    Primary(History),
    /// It follows the confirmed primary on the timeline with this history.
    Follower(History),
    /// It replays WAL from the archive of another cluster.
    Recovering(Recovery),
    /// `pg_rewind` runs, and reads WAL up to this timeline.
    Rewinding(TimelineId),
}

impl Role {
    /// Returns whether the member may restore a file.
    ///
    /// Histories above the confirmed timeline do not exist for a standby. WAL of a former primary
    /// that was written after the fork does not exist either.
    pub(crate) fn may_restore(&self, name: WalFileName, size: SegmentSize) -> bool {
        match (self, name) {
            (Self::Follower(history), _) => is_part_of(history, name, size),
            (Self::Rewinding(most), WalFileName::Segment(segment)) => segment.timeline() <= *most,
            (Self::Rewinding(most), WalFileName::History(timeline)) => timeline <= *most,
            _ => false,
        }
    }
}

/// Returns whether a file is needed to follow a history: the histories of its timelines, and the
/// segments that end before the fork.
///
/// A segment that contains a fork is needed on the later timeline only, which has a copy of the part
/// before the fork.
pub(crate) fn is_part_of(history: &History, name: WalFileName, size: SegmentSize) -> bool {
    match name {
        WalFileName::History(timeline) => is_in(history, timeline),
        WalFileName::Segment(segment) => {
            let end = segment.start(size).and_then(|start| start.0.checked_add(size.bytes()));
            let fork = history.switches().find(|(timeline, _)| *timeline == segment.timeline());
            match fork {
                Some((_, fork)) => end.is_some_and(|end| end <= fork.0),
                None => segment.timeline() == history.timeline(),
            }
        }
        WalFileName::Partial(_) | WalFileName::Backup { .. } => false,
    }
}

/// Returns whether a timeline with a history file is one of a history.
pub(crate) fn is_in(history: &History, timeline: TimelineId) -> bool {
    timeline != TimelineId::FIRST
        && (timeline == history.timeline() || history.switches().any(|(switch, _)| switch == timeline))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        History::parse(TimelineId::new(4).unwrap(), "1\t0/3000000\n2\t0/5800000\n").unwrap()
    }

    #[test]
    fn standby_restores_what_is_part_of_the_confirmed_history() {
        let role = Role::Follower(history());
        for (name, expected) in [
            ("000000010000000000000002", true),
            ("000000010000000000000003", false),
            ("000000020000000000000003", true),
            ("000000020000000000000004", true),
            // The fork is in this segment.
            ("000000020000000000000005", false),
            ("000000020000000000000005.partial", false),
            ("000000030000000000000002", false),
            ("000000040000000000000005", true),
            ("000000040000000000000009", true),
            ("000000050000000000000002", false),
            ("00000002.history", true),
            ("00000003.history", false),
            ("00000004.history", true),
            ("00000005.history", false),
        ] {
            assert_eq!(role.may_restore(name.parse().unwrap(), SegmentSize::DEFAULT), expected, "{name}");
        }
    }

    #[test]
    fn members_that_wait_or_write_restore_nothing() {
        let name = "000000040000000000000009".parse().unwrap();
        for role in [Role::Waiting, Role::Primary(history())] {
            assert!(!role.may_restore(name, SegmentSize::DEFAULT), "{role:?}");
        }
        let rewinding = |most| Role::Rewinding(TimelineId::new(most).unwrap());
        assert!(rewinding(4).may_restore(name, SegmentSize::DEFAULT));
        assert!(!rewinding(3).may_restore(name, SegmentSize::DEFAULT));
    }
}
