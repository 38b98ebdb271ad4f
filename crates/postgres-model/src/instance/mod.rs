//! What an instance does next. Pure: the same observation leads to the same plan.
//!
//! The instance observes, calls [`plan`], performs the command, and observes again: once a second,
//! and on every change. It keeps nothing in memory that a restart would lose.
//!
//! # Guarantees
//! - PostgreSQL starts or continues read-write only while the instance holds the Lease for the
//!   present epoch, is the target of that epoch, and has the data of this cluster on the timeline of
//!   that epoch. A single member needs the Lease to start, but not to continue.
//! - A database is created only on the volume that the operator named, and only if the volume has
//!   never had one.
//! - A sealed member follows no primary of an older epoch, and no primary before the operator has
//!   chosen one.
//! - On each timeline, only the member that began it writes.
//! - A promotion takes a timeline above those of all earlier promotions that the volume knows of.
//! - Only a whole data directory with the system identifier of the cluster is started.
//! - Restored data are promoted only after PostgreSQL has replayed the WAL up to the end of the recovery.
//! - On a full volume, PostgreSQL neither writes nor receives WAL.
//! - Data are upgraded only by the member that the operator has named, while PostgreSQL is down.
//!
//! The module does not know how long commands take. The fence that kills PostgreSQL when the Lease
//! expires runs apart from it and does not wait for it.

mod follow;
mod full;
mod lead;
mod observed;
#[cfg(test)]
mod properties;
mod recover;
#[cfg(test)]
mod tests;
mod upgrade;

use std::time::Duration;

pub use self::observed::{
    ClusterView, ControlData, DataDirectory, LeaseView, MajorVersions, Moment, Observed, Server, Task,
};
use crate::{report::InstanceState, space::BallastIntent, timeline::TimelineId};

/// Failed starts after which a target leaves the Lease to others.
const MAX_FAILED_STARTS: u32 = 3;
/// How long the fast shutdown of a former primary may take before the immediate one.
const FAST_SHUTDOWN: Duration = Duration::from_secs(10);

/// What an instance does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// State to report.
    pub state: InstanceState,
    /// Command to perform. `None` means to wait.
    pub command: Option<Command>,
    /// What to do with the Lease.
    pub lease: LeaseIntent,
    /// What to do with the ballast file, before the command.
    pub ballast: BallastIntent,
    /// Why the member waits for the operator or for a person.
    pub problem: Option<Problem>,
}

/// One step of an instance. It is repeated until the observation shows its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Run `initdb` into a partial directory, and rename it.
    CreateDatabase,
    /// Restore a base backup into a partial directory, and rename it.
    Restore,
    /// Copy the primary into a partial directory, and rename it.
    Clone {
        /// The member to copy.
        primary: String,
    },
    /// Remove WAL that the primary lacks, with `pg_rewind`.
    Rewind {
        /// The member to follow afterwards.
        primary: String,
    },
    /// Start as a standby, with `standby.signal` on disk before.
    StartStandby {
        /// The member to receive WAL from. `None`: from nobody.
        upstream: Option<String>,
    },
    /// Start read-write.
    StartPrimary,
    /// Receive WAL from another member, by a reload.
    Follow {
        /// The member to receive WAL from.
        upstream: String,
    },
    /// Stop the receiver, and then store the epoch on the volume.
    Seal {
        /// Epoch of the failover.
        epoch: u64,
    },
    /// Store the timeline on the volume, and then promote the standby to exactly this timeline.
    Promote {
        /// Timeline of the new primary.
        timeline: TimelineId,
    },
    /// Upgrade the data with `pg_upgrade` into a partial directory, and replace the data directory by it.
    Upgrade,
    /// Stop PostgreSQL.
    Stop(StopMode),
}

/// How PostgreSQL is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopMode {
    /// Ends the sessions, and sends all WAL to the standbys.
    Fast,
    /// Ends at once, without a checkpoint.
    Immediate,
}

/// What an instance does with the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseIntent {
    /// Do not try to hold it.
    None,
    /// Try to hold it.
    Acquire {
        /// Epoch to hold it for.
        epoch: u64,
        /// Version that has expired, so that it can be taken at once.
        expired: Option<String>,
    },
    /// Renew it.
    Renew,
    /// Do not renew it. PostgreSQL does not answer, or has to stop.
    Keep,
    /// Release it: PostgreSQL has stopped.
    Release,
}

/// Why a member waits for the operator or for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The data directory is that of another database.
    #[error("the data have another system identifier than the cluster; nothing is started or deleted")]
    OtherSystem,
    /// The data directory has gone from a volume that had one.
    #[error("the data directory is missing on a volume that had one; the member has to be cloned again")]
    DataLost,
    /// `pg_rewind` failed or was interrupted.
    #[error(
        "pg_rewind failed or was interrupted, so the data are not whole; the member has to be cloned again"
    )]
    RewindInterrupted,
    /// The member is the target and has no data.
    #[error("the member is to be the primary and has no data")]
    TargetWithoutData,
    /// A promotion was interrupted, and its timeline may have been used.
    #[error("a promotion was interrupted; the next one has to claim a higher timeline")]
    InterruptedPromotion,
    /// The data are on a later timeline than that of the present epoch.
    #[error("the data are on a later timeline than the cluster")]
    LaterTimeline,
    /// PostgreSQL does not start.
    #[error(
        "PostgreSQL does not start on this member, whose log says why; another member has to be the primary"
    )]
    DoesNotStart,
    /// The epoch names a timeline that another member began.
    #[error("the timeline of the cluster was begun by another member; a promotion has to claim a higher one")]
    TimelineOfAnother,
    /// The histories of the member and of the primary have no timeline in common.
    #[error("the member has no timeline in common with the primary and has to be cloned again")]
    Unrelated,
    /// The volume is full.
    #[error("the volume is full, so PostgreSQL does not run; raise spec.storage.size of the PostgresCluster")]
    DiskFull,
    /// A copy of the primary, or a restored backup, filled the volume.
    #[error(
        "the volume is too small for a copy of the database; raise spec.storage.size of the PostgresCluster"
    )]
    TooSmall,
    /// The data are those of a recovery that the present cluster does not ask for.
    #[error(
        "the volume has restored data that have not recovered, and this PostgresCluster has no \
         spec.bootstrap.recovery; delete the PersistentVolumeClaim, or create the cluster with spec.bootstrap.volumes: \
         Fresh"
    )]
    UnfinishedRecovery,
    /// The image for an upgrade has another major version than it should.
    #[error(
        "the image of the new version has another major version of PostgreSQL than --postgres-images of the manager says"
    )]
    OtherVersion,
    /// PostgreSQL ends during a recovery.
    #[error(
        "PostgreSQL ends during the recovery, and its log says why; often spec.parameters has lower values than the \
         source, such as max_connections"
    )]
    RecoveryFails,
}

impl Problem {
    /// Returns whether more space on the volume solves it.
    pub fn is_space(self) -> bool {
        matches!(self, Self::DiskFull | Self::TooSmall)
    }
}

/// Plans the next step of an instance.
pub fn plan(observed: &Observed) -> Plan {
    Plan { ballast: observed.space.ballast_intent(), ..next(observed) }
}

fn next(observed: &Observed) -> Plan {
    if let Some(plan) = observed.interruption() {
        return plan;
    }
    let Some(view) = &observed.cluster else { return observed.wait() };
    if view.fenced {
        return observed.stop(InstanceState::Fenced, None);
    }
    if let Some(to) = view.upgrade {
        return upgrade::plan(observed, view, to);
    }
    if let Some(problem) = observed.identity_problem(view) {
        return observed.stop(InstanceState::Hold, Some(problem));
    }
    // What was read is older than the seal: another member may be the target by now.
    if observed.volume.sealed_epoch.is_some_and(|sealed| sealed > view.epoch) {
        return observed.stop_primary();
    }
    let plan = if observed.space.is_full() {
        full::plan(observed, view)
    } else if let Some(plan) = recover::plan(observed, view) {
        plan
    } else if view.is_target(&observed.member) {
        lead::plan(observed, view)
    } else {
        follow::plan(observed, view)
    };
    // Comes last: a primary that is not the target any more stops, and is sealed when it has.
    match observed.seal(view) {
        Some(epoch) if !observed.server.is_primary() => {
            Plan { command: Some(Command::Seal { epoch }), ..plan }
        }
        _ => plan,
    }
}

impl Observed {
    /// Returns the plan while something runs that has to end first, or that has to be ended at once.
    fn interruption(&self) -> Option<Plan> {
        let fencing = self.cluster.as_ref().is_none_or(|view| view.fencing);
        if self.server.is_primary() && fencing && !self.holds_lease() {
            let command = Some(Command::Stop(StopMode::Immediate));
            return Some(Plan { command, lease: LeaseIntent::None, ..Plan::new(InstanceState::Fenced) });
        }
        if let Server::Stopping { mode: StopMode::Fast, since } = self.server
            && self.now.saturating_sub(since) >= FAST_SHUTDOWN
        {
            let command = Some(Command::Stop(StopMode::Immediate));
            return Some(Plan { command, lease: self.keep(), ..Plan::new(InstanceState::Stopping) });
        }
        if matches!(self.server, Server::Stopping { .. }) {
            let problem = self.space.is_full().then_some(Problem::DiskFull);
            return Some(Plan { lease: self.keep(), problem, ..Plan::new(InstanceState::Stopping) });
        }
        self.task.map(|task| Plan { lease: self.keep_or_renew(), ..Plan::new(task.state()) })
    }

    /// Returns the plan of an instance that has never read the cluster: what runs goes on.
    fn wait(&self) -> Plan {
        Plan {
            lease: self.keep_or_renew(),
            ..Plan::new(self.server.state(self.volume.sealed_epoch.is_some()))
        }
    }

    /// Returns the plan to stop PostgreSQL, and to release the Lease after that.
    fn stop(&self, state: InstanceState, problem: Option<Problem>) -> Plan {
        if self.server == Server::Down {
            return Plan { lease: self.release(), problem, ..Plan::new(state) };
        }
        let command = Some(Command::Stop(StopMode::Fast));
        Plan { command, lease: self.keep(), problem, ..Plan::new(InstanceState::Stopping) }
    }

    /// Returns the plan of a member that must not write.
    fn stop_primary(&self) -> Plan {
        if self.server.is_primary() {
            return self.stop(InstanceState::Hold, None);
        }
        Plan { lease: self.release(), ..Plan::new(self.server.state(true)) }
    }

    /// Returns the epoch of a seal that is due: newer than the last one, and not of the past.
    fn seal(&self, view: &ClusterView) -> Option<u64> {
        let is_new = |epoch: &u64| self.volume.sealed_epoch.is_none_or(|sealed| *epoch > sealed);
        self.seal_requested.filter(is_new).filter(|epoch| *epoch >= view.epoch)
    }

    fn identity_problem(&self, view: &ClusterView) -> Option<Problem> {
        let data = self.data.control().map(|control| control.system_identifier);
        let known = [view.system_identifier, self.volume.system_identifier, data];
        let mut identifiers = known.into_iter().flatten();
        let first = identifiers.next();
        if identifiers.any(|identifier| Some(identifier) != first) {
            return Some(Problem::OtherSystem);
        }
        if self.volume.rewind_begun {
            return Some(Problem::RewindInterrupted);
        }
        let had_data = self.volume.system_identifier.is_some() || self.server != Server::Down;
        (had_data && data.is_none()).then_some(Problem::DataLost)
    }

    fn holds_lease(&self) -> bool {
        self.now < self.lease.leads_until
    }

    fn holds_lease_of(&self, epoch: u64) -> bool {
        self.holds_lease() && self.lease.epoch == Some(epoch)
    }

    fn keep(&self) -> LeaseIntent {
        if self.holds_lease() { LeaseIntent::Keep } else { LeaseIntent::None }
    }

    fn release(&self) -> LeaseIntent {
        if self.holds_lease() { LeaseIntent::Release } else { LeaseIntent::None }
    }

    fn keep_or_renew(&self) -> LeaseIntent {
        if self.holds_lease() && self.server.is_alive() { LeaseIntent::Renew } else { self.keep() }
    }
}

impl Plan {
    fn new(state: InstanceState) -> Self {
        Self { state, command: None, lease: LeaseIntent::None, ballast: BallastIntent::Keep, problem: None }
    }

    fn with(state: InstanceState, command: Command) -> Self {
        Self { command: Some(command), ..Self::new(state) }
    }

    fn problem(problem: Problem) -> Self {
        Self { problem: Some(problem), ..Self::new(InstanceState::Hold) }
    }
}
