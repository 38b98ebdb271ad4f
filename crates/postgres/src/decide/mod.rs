//! Decides what to do next. Pure: the same observation leads to the same decision.
//!
//! A decision consists of a membership and of actions. The actions are valid only after the
//! membership has been stored. At most one of them is disruptive.
//!
//! # Guarantees
//! - The database is created or restored at most once, on one volume, which the status names before the Pod
//!   exists.
//! - A member starts only on its own volume. A lost or replaced volume is reported and never
//!   recreated under the same member.
//! - Serial numbers are never reused.
//! - The primary is never removed because the size is lowered, and neither is a standby on which a
//!   commit may have waited.
//! - A member is promoted only if it has every acknowledged write: see
//!   [`postgres_model::failover::decide`].
//! - Pods of a former spec are replaced one at a time while all members work, the primary after a
//!   switchover.
//! - Volumes grow, and never shrink.
//! - Nobody replaces a primary that a person has fenced.
//! - A new member starts after all volumes name it, so that they tell another cluster of the name who
//!   may have an acknowledged row.
//! - A paused cluster gets no action.
//! - Data are upgraded to another major version by one member, which was the primary, while all others are
//!   stopped.
//! - The Pods of a hibernated cluster are deleted after it is stored that the primary is fenced, so nobody
//!   replaces it.

pub(crate) mod adoption;
pub(crate) mod deletion;
mod fencing;
mod primary;
#[cfg(test)]
mod properties;
mod record;
mod recovery;
mod requeue;
mod rollout;
mod size;
mod storage;
#[cfg(test)]
mod tests;
mod upgrade;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use postgres_model::{
    failover::{MissingQuorum, Reign, Replication},
    fence::Fence,
    report::InstanceReport,
    sync::SyncConfiguration,
    timeline::Position,
};

use self::{adoption::AdoptionProblem, primary::Election};
pub(crate) use self::{
    requeue::requeue_after,
    storage::{ClaimSize, Storage},
    upgrade::RequestedUpgrade,
};
use crate::{
    api::{BootstrapStatus, Durability, FormerVolumes, PrimaryUpdate, RecoveryStatus, RetentionPolicy, Role},
    membership::{Member, Membership, Serial},
    record::VolumeRecord,
    recovery::RecoveryProblem,
};

/// What the controller sees of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// UID of the cluster.
    pub(crate) cluster_uid: String,
    /// Desired number of members.
    pub(crate) size: usize,
    pub(crate) paused: bool,
    /// Whether no member should have a Pod.
    pub(crate) hibernated: bool,
    /// Members that a person has fenced.
    pub(crate) fence: Fence,
    /// Policy for the volumes of removed members.
    pub(crate) when_scaled: RetentionPolicy,
    /// Policy for the volumes of former clusters.
    pub(crate) former: FormerVolumes,
    /// Major version of the data.
    pub(crate) major_version: Option<u16>,
    /// The stored membership.
    pub(crate) membership: Membership,
    /// Volumes with the name of a member of this cluster.
    pub(crate) volumes: BTreeMap<Serial, Volume>,
    /// Pods with the name of a member of this cluster.
    pub(crate) pods: BTreeMap<Serial, MemberPod>,
    /// Reports of the members that answer.
    pub(crate) reports: BTreeMap<Serial, InstanceReport>,
    pub(crate) failover: Failover,
    pub(crate) synchronous: Synchronous,
    pub(crate) switchover: Switchover,
    /// The member that a person wants to be promoted although it may lack rows, or `any`.
    pub(crate) forced: Option<String>,
    pub(crate) updates: Updates,
    pub(crate) storage: Storage,
    /// The upgrade to another major version that the spec asks for.
    pub(crate) upgrade: Option<RequestedUpgrade>,
    /// From which archive a new cluster recovers. `None`: it creates a new database.
    pub(crate) recovery: Option<Result<RecoveryStatus, RecoveryProblem>>,
}

/// What decides about a switchover.
#[derive(Clone, Debug)]
pub(crate) struct Switchover {
    /// The request of a person: the name of a member, or `any`.
    pub(crate) request: Option<String>,
    /// Standbys that could replace the primary at once.
    pub(crate) successors: Vec<String>,
}

/// What decides about the replacement of Pods.
#[derive(Clone, Debug)]
pub(crate) struct Updates {
    /// Revision that the Pods should have. `None` if no Pod can be created now.
    pub(crate) revision: Option<String>,
    pub(crate) primary: PrimaryUpdate,
}

/// What decides about the primary.
#[derive(Clone, Debug)]
pub(crate) struct Failover {
    pub(crate) enabled: bool,
    /// Duration of the Lease.
    pub(crate) lease: Duration,
    /// Time until the Lease expires unless it is renewed. Zero: nobody holds it.
    pub(crate) lease_expires_in: Duration,
    /// Time since the Lease was renewed. `None` if nobody holds it.
    pub(crate) since_renewal: Option<Duration>,
    /// Version of the Lease, if it was not renewed for its whole duration.
    pub(crate) expired_lease: Option<String>,
    /// How long the state of the failover has been stored, as far as this process knows.
    pub(crate) since_change: Duration,
    /// How many bytes of WAL a failover without synchronous replication may lose.
    pub(crate) max_lag: u64,
    /// Last position of the primary, as far as this process knows.
    pub(crate) last_position: Option<Position>,
    /// Time since the primary was fenced last, as far as this process knows.
    pub(crate) since_fenced: Duration,
}

/// What decides about synchronous replication.
#[derive(Clone, Debug)]
pub(crate) struct Synchronous {
    /// How many standbys a commit should wait for.
    pub(crate) number: usize,
    pub(crate) durability: Durability,
    /// Standbys that stream from the primary.
    pub(crate) streaming: Vec<String>,
    /// How long these have been the same. Zero while the primary does not run.
    pub(crate) streaming_since: Duration,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) uid: String,
    /// Whether this cluster has used it last, and not another object of this name.
    pub(crate) is_ours: bool,
    pub(crate) is_terminating: bool,
    pub(crate) size: ClaimSize,
    /// What it says. `None` if it was not made for a cluster of this name.
    pub(crate) record: Option<VolumeRecord>,
}

/// A Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberPod {
    pub(crate) uid: String,
    pub(crate) is_ready: bool,
    pub(crate) is_terminating: bool,
    /// Whether its containers have ended for good.
    pub(crate) is_finished: bool,
    /// Role in its label.
    pub(crate) role: Option<Role>,
    /// Revision in its label. Empty without one.
    pub(crate) revision: String,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// The membership to store before the actions.
    pub(crate) membership: Membership,
    pub(crate) actions: Vec<Action>,
    /// Why the volume of a member cannot be used.
    pub(crate) problems: Vec<(Serial, VolumeProblem)>,
    /// Why no member replaces the primary.
    pub(crate) obstacle: Option<FailoverObstacle>,
    /// Members whose Pods have to be replaced.
    pub(crate) outdated: Vec<Serial>,
    /// What the volume of a new member should say.
    pub(crate) record: VolumeRecord,
    /// Volumes of former clusters that are not used.
    pub(crate) retained: Vec<Serial>,
    /// Why these are not adopted.
    pub(crate) adoption_problem: Option<AdoptionProblem>,
    /// Why the recovery from an archive cannot begin.
    pub(crate) recovery_problem: Option<RecoveryProblem>,
    /// Whether a person has chosen the target, which may lack rows.
    pub(crate) is_forced: bool,
}

/// Why no member replaces a failed primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FailoverObstacle {
    /// The members that answer may lack acknowledged writes.
    NoQuorum(Vec<MissingQuorum>),
    /// The member with the most WAL lacks this number of bytes.
    TooFarBehind(u64),
    /// While the primary had no synchronous standby, it may have acknowledged writes that no other
    /// member has.
    Unprotected,
    /// The spec forbids it.
    Disabled,
    /// The volumes of these members are full.
    DiskFull(Vec<String>),
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    CreateVolume(Serial),
    CreatePod(Serial),
    /// Deletes the Pod with this UID. Disruptive.
    DeletePod(Serial, String),
    /// Deletes the volume with this UID. Its member has been removed.
    DeleteVolume(Serial, String),
    /// Lets the volume with this UID grow to the size of the spec.
    GrowVolume(Serial, String),
    /// Sets the role label of the Pod with this UID.
    SetRole(Serial, String, Role),
    /// Asks the member to receive no more WAL, and to remember this epoch.
    Seal(Serial, u64),
    /// Removes this request for a switchover from the cluster.
    ForgetSwitchover(String),
    /// Removes this request for a forced promotion from the cluster.
    ForgetForced(String),
    /// Writes the record to the volume with this UID.
    Record(Serial, String),
}

/// Why the volume of a member cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeProblem {
    /// The volume of the member no longer exists.
    Lost,
    /// Another volume has the name of the member's volume.
    Replaced,
    /// A volume with the name of a new member belongs to somebody else.
    Conflict,
    /// The volume of the member is being deleted.
    Terminating,
    /// The volume had data and is empty.
    Emptied,
}

/// Decides what to do next.
pub(crate) fn decide(observed: &Observed) -> Decision {
    let mut next = observed.membership.clone();
    if observed.paused {
        return Decision::idle(observed, next);
    }
    learn(observed, &mut next);
    match adoption::begin(observed, &mut next) {
        Ok(false) => {
            if let Err(problem) = bootstrap(observed, &mut next) {
                return Decision { recovery_problem: Some(problem), ..Decision::idle(observed, next) };
            }
        }
        // The members start in the next reconcile, which knows the version of their data.
        Ok(true) => return Decision::idle(observed, next),
        Err(problem) => {
            return Decision { adoption_problem: Some(problem), ..Decision::idle(observed, next) };
        }
    }
    let adoption_problem = adoption::compare(observed, &mut next);
    recovery::learn(observed, &mut next);
    let is_upgraded = upgrade::advance(observed, &mut next);
    // The next reconcile knows the programs that the Pods need.
    if next.upgrade != observed.membership.upgrade {
        return Decision::idle(observed, next);
    }
    if is_upgraded {
        return Decision { actions: actions(observed, &next), ..Decision::idle(observed, next) };
    }
    let election = match adoption_problem {
        None => primary::elect(observed, &mut next),
        Some(_) => Election::default(),
    };
    adoption::finish(&mut next);
    recovery::finish(&mut next);
    primary::replicate(observed, &mut next);
    size::adjust(observed, &mut next);
    let mut actions = actions(observed, &next);
    let is_disruptive = |action: &Action| matches!(action, Action::DeletePod(..));
    if !observed.primary_is_fenced() && !actions.iter().any(is_disruptive) {
        actions.extend(rollout::next_pod(observed, &next));
    }
    actions.extend(storage::growth(observed, &next));
    actions.extend(observed.record_changes(&next));
    actions.extend(forgotten_requests(observed, &next));
    actions.extend(election.seals.into_iter().map(|serial| Action::Seal(serial, next.failover.epoch)));
    let Election { obstacle, is_forced, .. } = election;
    Decision { actions, obstacle, adoption_problem, is_forced, ..Decision::idle(observed, next) }
}

impl Decision {
    /// Returns the decision to do nothing but to store a membership.
    fn idle(observed: &Observed, membership: Membership) -> Self {
        Self {
            actions: Vec::new(),
            problems: problems(observed, &membership),
            obstacle: None,
            outdated: rollout::outdated(observed, &membership),
            record: observed.record(&membership),
            retained: observed.retained(&membership),
            adoption_problem: None,
            recovery_problem: None,
            is_forced: false,
            membership,
        }
    }
}

/// Returns the removal of requests that have been acted on. One for a forced promotion is for the
/// failover that waits, and for no later one.
fn forgotten_requests(observed: &Observed, next: &Membership) -> impl Iterator<Item = Action> {
    let switchover = observed.switchover.request.clone();
    let switchover = switchover.filter(|request| next.failover.switchover.as_ref() == Some(request));
    let forced = observed.forced.clone().filter(|_| next.failover.target.is_some());
    switchover.map(Action::ForgetSwitchover).into_iter().chain(forced.map(Action::ForgetForced))
}

/// Records the volumes that were created, and the members that have become ready.
fn learn(observed: &Observed, next: &mut Membership) {
    for member in &mut next.members {
        if let (None, Some(volume)) = (&member.volume_uid, observed.volumes.get(&member.serial))
            && volume.is_ours
            && !volume.is_terminating
        {
            member.volume_uid = Some(volume.uid.clone());
        }
    }
    let joins = |member: &&Member| observed.joins(next, member.serial);
    let joined: BTreeSet<_> = next.members.iter().filter(joins).map(|member| member.serial).collect();
    for member in &mut next.members {
        member.joined |= joined.contains(&member.serial);
    }
}

/// Lets the first member create or recover the database.
fn bootstrap(observed: &Observed, next: &mut Membership) -> Result<(), RecoveryProblem> {
    let is_new = next.bootstrap.is_none() && next.members.is_empty();
    if let Some(source) = observed.recovery.clone().filter(|_| is_new) {
        recovery::begin(next, source?);
    } else if is_new {
        let first = size::add(next);
        let primary = next.name_of(first);
        next.failover.reigns =
            vec![Reign { primary: primary.clone(), configuration: SyncConfiguration::default() }];
        next.failover.target = Some(primary);
        next.failover.epoch = next.failover.epoch.saturating_add(1);
    }
    let first = next.members.first();
    if let (None, Some(uid)) = (&next.bootstrap, first.and_then(|member| member.volume_uid.clone())) {
        next.bootstrap = Some(BootstrapStatus { volume_uid: uid, done: false });
    }
    Ok(())
}

fn actions(observed: &Observed, next: &Membership) -> Vec<Action> {
    let mut actions: Vec<_> =
        next.members.iter().filter_map(|member| observed.action(next, member)).collect();
    let mut disrupted = false;
    actions.retain(|action| {
        let is_surplus = disrupted && matches!(action, Action::DeletePod(..));
        disrupted |= matches!(action, Action::DeletePod(..));
        !is_surplus
    });
    actions
}

fn problems(observed: &Observed, next: &Membership) -> Vec<(Serial, VolumeProblem)> {
    let emptied = |serial| observed.is_emptied(next, serial).then_some(VolumeProblem::Emptied);
    let problem = |member: &Member| observed.problem(member).or_else(|| emptied(member.serial));
    next.staying().filter_map(|member| Some((member.serial, problem(member)?))).collect()
}

impl Observed {
    /// Returns whether the primary should wait for more standbys than stream from it.
    pub(crate) fn standbys_are_missing(&self) -> bool {
        let others = self.membership.members.len().saturating_sub(1);
        self.synchronous.streaming.len() < self.synchronous.number.min(others)
    }

    /// Returns the replication between these members.
    fn replication<'a>(
        &'a self,
        joined: &'a [String],
        primary: Option<&'a InstanceReport>,
    ) -> Replication<'a> {
        Replication {
            number: self.synchronous.number,
            is_required: self.synchronous.durability == Durability::Required,
            members: joined,
            streaming: &self.synchronous.streaming,
            streaming_since: self.synchronous.streaming_since,
            since_renewal: self.failover.since_renewal,
            in_force: primary.and_then(|report| report.synchronous_standby_names.as_deref()),
        }
    }

    /// Returns whether the Pod of a member is ready and stays.
    fn is_ready(&self, serial: Serial) -> bool {
        self.pods.get(&serial).is_some_and(|pod| pod.is_ready && !pod.is_terminating)
    }

    /// Returns whether a member has a copy of the data, and all others know it. One that is adopted
    /// starts before they do.
    fn joins(&self, next: &Membership, serial: Serial) -> bool {
        // The readiness of a Pod can be older than the report of its instance.
        let is_empty = self.reports.get(&serial).is_some_and(|report| report.is_empty);
        self.is_ready(serial) && !is_empty && self.is_recorded(next, serial)
    }

    /// Returns the next write for a member.
    fn action(&self, next: &Membership, member: &Member) -> Option<Action> {
        let serial = member.serial;
        let pod = self.pods.get(&serial);
        if self.hibernated {
            let pod = pod.filter(|pod| !pod.is_terminating);
            return pod.map(|pod| Action::DeletePod(serial, pod.uid.clone()));
        }
        if let Some(upgrade) = next.upgrade_in_progress() {
            return self.upgrade_action(next, member, upgrade);
        }
        if let Some(action) = self.former_upgrade(next, serial) {
            return Some(action);
        }
        // A failover may need what it has.
        if member.leaving && member.joined && next.is_in_quorum(serial) {
            return None;
        }
        if let Some(pod) = pod.filter(|pod| !pod.is_terminating && (member.leaving || pod.is_finished)) {
            return Some(Action::DeletePod(serial, pod.uid.clone()));
        }
        if member.leaving {
            let volume = self.surplus_volume(member).filter(|_| pod.is_none());
            return volume.filter(|_| self.is_struck_off(next, serial));
        }
        if let Some(pod) = pod {
            return self.new_role(next, serial, pod);
        }
        if self.problem(member).is_some() {
            return None;
        }
        match member.volume_uid {
            None => Some(Action::CreateVolume(serial)),
            Some(_) if !may_start(next, member) => None,
            Some(_) => {
                let is_recorded = member.joined || self.is_recorded(next, serial);
                is_recorded.then_some(Action::CreatePod(serial))
            }
        }
    }

    /// Returns the deletion of the volume of a removed member, if the policy says so.
    fn surplus_volume(&self, member: &Member) -> Option<Action> {
        let volume = self.volumes.get(&member.serial)?;
        let is_surplus = self.when_scaled == RetentionPolicy::Delete
            && volume.is_ours
            && !volume.is_terminating
            && member.volume_uid.as_ref() == Some(&volume.uid);
        is_surplus.then(|| Action::DeleteVolume(member.serial, volume.uid.clone()))
    }

    /// Returns the change of the role label. At no time do two Pods have the label of the primary.
    ///
    /// A former primary loses the label also while it ends, which can take long or need its node. Until then, its
    /// Service would lead to it, and not to its successor.
    fn new_role(&self, next: &Membership, serial: Serial, pod: &MemberPod) -> Option<Action> {
        let role = next.role(serial);
        let others_primary =
            || self.pods.iter().any(|(other, pod)| *other != serial && pod.role == Some(Role::Primary));
        let is_due = pod.role != Some(role) && (!pod.is_terminating || pod.role == Some(Role::Primary));
        (is_due && (role == Role::Replica || !others_primary()))
            .then(|| Action::SetRole(serial, pod.uid.clone(), role))
    }

    fn problem(&self, member: &Member) -> Option<VolumeProblem> {
        match (&member.volume_uid, self.volumes.get(&member.serial)) {
            (None, None) => None,
            (None, Some(volume)) if !volume.is_ours => Some(VolumeProblem::Conflict),
            (Some(_), None) => Some(VolumeProblem::Lost),
            (Some(uid), Some(volume)) if *uid != volume.uid => Some(VolumeProblem::Replaced),
            (_, Some(volume)) => volume.is_terminating.then_some(VolumeProblem::Terminating),
        }
    }
}

/// Returns whether the Pod of a member may start. The first creates the database and needs the
/// permission. The others copy the primary and need one.
fn may_start(next: &Membership, member: &Member) -> bool {
    let is_first = next
        .bootstrap
        .as_ref()
        .is_some_and(|bootstrap| member.volume_uid.as_ref() == Some(&bootstrap.volume_uid));
    is_first || member.joined || next.failover.current.is_some()
}
