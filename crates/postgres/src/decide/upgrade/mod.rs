//! An upgrade of the data to another major version.
//!
//! 1. The status names the versions and the member, which is the primary. All members stop, the primary first.
//! 2. The Pod of the member is replaced by one with the programs of both versions. Once it answers, the status says
//!    that the upgrade has started. Until then, it can be cancelled.
//! 3. The member upgrades its data, and reports their new system identifier. The others leave, and their volumes
//!    stay as they are. The member is sealed and promoted, like the only member of a former cluster.
//!
//! Nobody is promoted meanwhile, because the primary counts as fenced. If the upgrade fails, all members start
//! again with the former version.

#[cfg(test)]
mod tests;

use postgres_model::{
    failover::FailoverState,
    report::{InstanceReport, UpgradeReport},
    timeline::TimelineId,
};

use super::{Action, MemberPod, Observed, VolumeProblem, rollout};
use crate::{
    api::{MajorUpgradeStatus, major},
    membership::{Member, Membership, Serial},
};

/// Failure of an upgrade that the spec no longer asks for.
const CANCELLED: &str = "it was cancelled, because spec.version or spec.updates.majorVersion has changed";

/// An upgrade that the spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestedUpgrade {
    /// Version of the data.
    pub(crate) from: String,
    /// Version to upgrade to.
    pub(crate) to: String,
}

/// Brings an upgrade one step further. Returns whether all members have to be down in this decision.
pub(super) fn advance(observed: &Observed, next: &mut Membership) -> bool {
    match next.upgrade.clone() {
        Some(upgrade) if upgrade.is_in_progress() => {
            proceed(observed, next, upgrade);
            true
        }
        Some(upgrade) if upgrade.has_failed() => {
            let is_forgotten =
                !observed.asks_for(|to| major(to) == upgrade.to_major()) && !next.failover.fenced;
            if is_forgotten {
                next.upgrade = None;
            }
            false
        }
        _ => begin(observed, next),
    }
}

/// Begins an upgrade that the spec asks for, once all members work.
fn begin(observed: &Observed, next: &mut Membership) -> bool {
    let is_settled =
        !observed.hibernated && !observed.primary_is_fenced() && rollout::is_settled(observed, next);
    let Some(requested) = observed.upgrade.as_ref().filter(|_| is_settled) else { return false };
    let Some(member) = next.failover.current.clone() else { return false };
    let RequestedUpgrade { from, to } = requested.clone();
    next.upgrade = Some(MajorUpgradeStatus { from, to, member, ..MajorUpgradeStatus::default() });
    next.failover.fenced = true;
    true
}

fn proceed(observed: &Observed, next: &mut Membership, mut upgrade: MajorUpgradeStatus) {
    let Some(member) = next.members.iter().find(|one| next.name_of(one.serial) == upgrade.member).cloned()
    else {
        return;
    };
    let report = observed.upgrading_report(member.serial);
    let progress = report.and_then(|report| Some((report, report.upgrade.as_ref()?)));
    if let Some(failure) = failure(observed, &upgrade, &member, progress.map(|(_, progress)| progress)) {
        upgrade.failure = failure;
    } else if !upgrade.started {
        upgrade.started = report.is_some();
    } else if let Some((report, progress)) = progress
        && Some(progress.data_version) == upgrade.to_major()
        && report.system_identifier.is_some_and(|identifier| Some(identifier) != next.system_id)
    {
        upgrade.done = true;
        finish(next, member.serial, report);
    }
    next.upgrade = Some(upgrade);
}

/// Returns why an upgrade does not go on.
fn failure(
    observed: &Observed,
    upgrade: &MajorUpgradeStatus,
    member: &Member,
    progress: Option<&UpgradeReport>,
) -> Option<String> {
    let is_requested = observed.asks_for(|to| to == upgrade.to);
    let problem = observed.problem(member);
    if !upgrade.started && !is_requested {
        Some(CANCELLED.to_owned())
    } else if matches!(problem, Some(VolumeProblem::Lost | VolumeProblem::Replaced)) {
        Some(format!("the volume of {} is lost", upgrade.member))
    } else if observed.forced.is_some() {
        Some("a person has forced the promotion of another member".to_owned())
    } else {
        progress.filter(|_| upgrade.started).and_then(|progress| progress.failure.clone())
    }
}

/// Lets the cluster go on with the upgraded data.
fn finish(next: &mut Membership, upgraded: Serial, report: &InstanceReport) {
    // The API server accepts no name of a cluster with which this could fail.
    let Ok(state) = FailoverState::adopting(vec![next.name_of(upgraded)]) else { return };
    for member in next.members.iter_mut().filter(|member| member.serial != upgraded) {
        (member.joined, member.leaving) = (false, true);
    }
    let known = [report.timeline, report.highest_timeline];
    next.failover = FailoverState {
        epoch: next.failover.epoch.saturating_add(1),
        timeline: known.into_iter().flatten().fold(TimelineId::FIRST, TimelineId::max),
        ..state
    };
    next.system_id = report.system_identifier;
    next.timelines.clear();
}

impl Observed {
    /// Returns whether the spec asks for an upgrade to such a version, as far as the images are known.
    fn asks_for(&self, is_this: impl Fn(&str) -> bool) -> bool {
        let is_asked = self.upgrade.as_ref().is_some_and(|requested| is_this(&requested.to));
        is_asked || self.updates.revision.is_none()
    }

    /// Returns whether a Pod has the programs that Pods should have now.
    fn is_current(&self, pod: &MemberPod) -> bool {
        self.updates.revision.as_ref() == Some(&pod.revision)
    }

    /// Returns the report of the member that upgrades its data, from the Pod with the programs for it.
    fn upgrading_report(&self, serial: Serial) -> Option<&InstanceReport> {
        let pod = self.pods.get(&serial).filter(|pod| self.is_current(pod) && !pod.is_terminating)?;
        self.reports.get(&serial).filter(|report| report.pod_uid == pod.uid)
    }

    /// Returns the next write for a member during an upgrade.
    pub(super) fn upgrade_action(
        &self,
        next: &Membership,
        member: &Member,
        upgrade: &MajorUpgradeStatus,
    ) -> Option<Action> {
        self.updates.revision.as_ref()?;
        let serial = member.serial;
        let upgrades = |serial: Serial| next.name_of(serial) == upgrade.member;
        // The primary sends its last WAL to the standbys, whose volumes stay.
        let primary_runs = self.pods.iter().any(|(serial, pod)| upgrades(*serial) && !self.is_current(pod));
        let Some(pod) = self.pods.get(&serial) else {
            let may_start = upgrades(serial) && member.volume_uid.is_some() && self.problem(member).is_none();
            return may_start.then_some(Action::CreatePod(serial));
        };
        let stays = if upgrades(serial) { self.is_current(pod) && !pod.is_finished } else { primary_runs };
        (!stays && !pod.is_terminating).then(|| Action::DeletePod(serial, pod.uid.clone()))
    }

    /// Returns the deletion of a Pod that was created for an upgrade that has failed.
    pub(super) fn former_upgrade(&self, next: &Membership, serial: Serial) -> Option<Action> {
        let upgrade = next.upgrade.as_ref().filter(|upgrade| upgrade.has_failed())?;
        let is_upgraded = next.failover.fenced && next.name_of(serial) == upgrade.member;
        let pod = self.pods.get(&serial).filter(|pod| is_upgraded && !pod.is_terminating)?;
        (!self.is_current(pod)).then(|| Action::DeletePod(serial, pod.uid.clone()))
    }
}
