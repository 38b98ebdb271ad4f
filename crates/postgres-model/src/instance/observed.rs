//! What an instance sees.

use std::time::Duration;

use super::StopMode;
use crate::{
    lsn::Lsn,
    report::InstanceState,
    space::Space,
    system_identifier::SystemIdentifier,
    timeline::{History, TimelineId},
    volume_state::VolumeState,
};

/// Time on a clock that is never set back, and that advances while the computer sleeps.
pub type Moment = Duration;

/// What an instance sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The present time.
    pub now: Moment,
    /// Name of the member.
    pub member: String,
    /// UID of the member's PersistentVolumeClaim.
    pub volume_uid: String,
    /// The cluster, as it was last read. `None` until the first read.
    pub cluster: Option<ClusterView>,
    /// The Lease, as far as this instance holds it.
    pub lease: LeaseView,
    /// The state on the volume.
    pub volume: VolumeState,
    /// The space of the volume.
    pub space: Space,
    /// The data directory.
    pub data: DataDirectory,
    /// PostgreSQL.
    pub server: Server,
    /// How many starts of PostgreSQL have failed in a row since the epoch began.
    pub failed_starts: u32,
    /// A long command that runs.
    pub task: Option<Task>,
    /// Whether PostgreSQL has replayed the WAL up to the end of the recovery of the volume.
    pub recovered: bool,
    /// Major versions of the programs and of the data.
    pub versions: MajorVersions,
    /// Highest epoch at which the operator asked for a seal.
    pub seal_requested: Option<u64>,
}

/// Major versions of PostgreSQL, which differ before an upgrade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MajorVersions {
    /// Version of the programs in the image.
    pub programs: u16,
    /// Version of the data directory. `None` without one.
    pub data: Option<u16>,
    /// Whether an upgrade of the data has failed in this Pod.
    pub upgrade_failed: bool,
}

/// The part of a PostgresCluster that an instance obeys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// Number of decisions about the target.
    pub epoch: u64,
    /// The member that may be the primary. `None` while a failover chooses one.
    pub target: Option<String>,
    /// The primary. `None` until the target has reported that it is.
    pub current: Option<String>,
    /// Version of the Lease that had expired when the target was chosen.
    pub expired_lease: Option<String>,
    /// Timeline that the primary of this epoch has, or gets by its promotion.
    pub timeline: TimelineId,
    /// History of the timeline of the primary, once the primary has reported it.
    pub primary_history: Option<History>,
    /// UID of the volume on which the database may be created or restored. `None` once it exists.
    pub create_on: Option<String>,
    /// Whether the database comes from an archive.
    pub recovers: bool,
    /// System identifier of the cluster, once the database exists.
    pub system_identifier: Option<SystemIdentifier>,
    /// Whether a person has fenced this member, or all members are stopped.
    pub fenced: bool,
    /// Major version to which this member upgrades its data while the others are stopped.
    pub upgrade: Option<u16>,
    /// Whether the primary needs the Lease to continue. A single member does not.
    pub fencing: bool,
}

impl ClusterView {
    pub(super) fn is_target(&self, member: &str) -> bool {
        self.target.as_deref() == Some(member)
    }

    /// Returns the primary, once it is both decided and confirmed.
    pub fn confirmed_primary(&self) -> Option<&String> {
        self.current.as_ref().filter(|current| self.target.as_ref() == Some(current))
    }

    /// Returns the member to follow: the primary, once it is both decided and confirmed.
    pub(super) fn primary(&self) -> Option<&str> {
        self.confirmed_primary().map(String::as_str)
    }
}

/// The Lease, as far as this instance holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// Moment until which the instance may write. Zero if it does not hold the Lease.
    pub leads_until: Moment,
    /// Epoch for which it was acquired.
    pub epoch: Option<u64>,
}

/// The data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataDirectory {
    /// There is none. What an interrupted copy left counts as none.
    Missing,
    /// It is whole.
    Whole(ControlData),
}

impl DataDirectory {
    pub(super) fn control(&self) -> Option<&ControlData> {
        match self {
            Self::Missing => None,
            Self::Whole(control) => Some(control),
        }
    }
}

/// What is known about a data directory, from `pg_control` and from its history file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlData {
    /// System identifier.
    pub system_identifier: SystemIdentifier,
    /// History of the timeline that it is on.
    pub history: History,
    /// End of its WAL. `None` while it is not known: PostgreSQL is down and did not stop cleanly, or
    /// it has not replayed all of it.
    pub end: Option<Lsn>,
}

/// PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// It does not run.
    Down,
    /// It runs, or starts, as a standby.
    Standby {
        /// The member that it receives WAL from.
        upstream: Option<String>,
    },
    /// It runs, or starts, read-write.
    Primary {
        /// Whether it answers, or makes progress in its recovery.
        responsive: bool,
    },
    /// It shuts down.
    Stopping {
        /// How.
        mode: StopMode,
        /// Since when.
        since: Moment,
    },
}

impl Server {
    pub(super) fn is_primary(&self) -> bool {
        matches!(self, Self::Primary { .. })
    }

    pub(super) fn is_alive(&self) -> bool {
        matches!(self, Self::Primary { responsive: true })
    }

    pub(super) fn state(&self, is_sealed: bool) -> InstanceState {
        match self {
            Self::Down => InstanceState::Hold,
            Self::Standby { upstream: None } if is_sealed => InstanceState::Sealed,
            Self::Standby { .. } => InstanceState::Standby,
            Self::Primary { .. } => InstanceState::Primary,
            Self::Stopping { .. } => InstanceState::Stopping,
        }
    }
}

/// A command that takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// `initdb` runs.
    CreateDatabase,
    /// A base backup is being restored.
    Restore,
    /// `pg_basebackup` runs.
    Clone,
    /// `pg_rewind` runs.
    Rewind,
    /// The promotion is not confirmed yet.
    Promote,
    /// `pg_upgrade` runs.
    Upgrade,
}

impl Task {
    pub(super) fn state(self) -> InstanceState {
        match self {
            Self::CreateDatabase => InstanceState::Init,
            Self::Restore => InstanceState::Restore,
            Self::Clone => InstanceState::Clone,
            Self::Rewind => InstanceState::Rewind,
            Self::Promote => InstanceState::Promoting,
            Self::Upgrade => InstanceState::Upgrade,
        }
    }
}
