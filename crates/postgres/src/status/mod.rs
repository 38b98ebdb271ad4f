//! Computes the reporting part of the status. Pure functions.

mod archiving;
mod databases;
mod deletion;
mod fencing;
mod recovery;
mod slots;
mod storage;
mod upgrade;
mod volumes;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use operator_core::{
    ReconcileError,
    conditions::{NewCondition, READY, set_conditions},
    error::chain,
};

use postgres_model::{parameters::fingerprint, report::InstanceReport};
use std::collections::BTreeMap;

pub(crate) use self::deletion::terminating;
use crate::{
    api::{InstanceStatus, Members, Phase, PostgresCluster, PostgresClusterStatus, PrimaryUpdate},
    backups::Summary,
    build::{SWITCHOVER, member_name, selector_string, service},
    condition_types::{AVAILABLE, CONFIGURATION_APPLIED, DATA_SAFE, SCALING, UPGRADING, VERSION_SUPPORTED},
    decide::{FailoverObstacle, Volume, VolumeProblem, adoption::AdoptionProblem},
    error::Error,
    fence::fence,
    members::MemberState,
    membership::{Membership, Serial},
    reasons,
    recovery::RecoveryProblem,
    version::{Served, Unsupported},
};

/// What a person can do if what is missing does not come back.
const FORCE: &str = "; if it is gone for good, set the annotation lukeb0nd.com/force-promote to a member that answers, or to any, and lose what only the missing ones have";

/// State of a cluster after its reconcile.
pub(crate) struct Observation<'a> {
    pub(crate) membership: &'a Membership,
    /// State of each member that has a Pod.
    pub(crate) pods: &'a [(Serial, MemberState)],
    /// What prevents members from running.
    pub(crate) problems: &'a [(Serial, VolumeProblem)],
    /// Why no member replaces the primary.
    pub(crate) obstacle: Option<&'a FailoverObstacle>,
    /// Members whose Pods have to be replaced.
    pub(crate) outdated: &'a [Serial],
    /// Volumes of former clusters that are not used.
    pub(crate) retained: &'a [Serial],
    /// Why these are not adopted.
    pub(crate) adoption_problem: Option<&'a AdoptionProblem>,
    /// Why the recovery from an archive cannot begin.
    pub(crate) recovery_problem: Option<&'a RecoveryProblem>,
    /// Reports of the members that answer.
    pub(crate) reports: &'a BTreeMap<Serial, InstanceReport>,
    /// Volumes of the members.
    pub(crate) volumes: &'a BTreeMap<Serial, Volume>,
    /// Volumes that the API server does not let grow, with its words.
    pub(crate) refusals: &'a BTreeMap<Serial, String>,
    /// Standbys that could replace the primary at once.
    pub(crate) successors: &'a [String],
    /// Failures of this reconcile.
    pub(crate) failures: &'a [Failure],
    /// The version that runs.
    pub(crate) version: &'a Result<Served, Unsupported>,
    /// The backups of the cluster.
    pub(crate) backups: &'a Summary,
}

/// A failed write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Failure {
    /// Converts an error into a failure.
    pub(crate) fn from_error(error: &Error) -> Self {
        Self { reason: error.reason(), message: chain(error) }
    }
}

/// Computes the status of a cluster in this state.
pub(crate) fn status(
    cluster: &PostgresCluster,
    observed: &Observation<'_>,
    now: Timestamp,
) -> PostgresClusterStatus {
    let known = cluster.status.clone().unwrap_or_default();
    let mut status = observed.membership.store(known);
    for instance in &mut status.instances {
        let pod = observed.pods.iter().find(|(serial, _)| *serial == instance.serial);
        let state = pod.map(|(_, state)| state.clone()).unwrap_or_default();
        (instance.ready, instance.node) = (state.is_ready, state.node);
        // Standbys keep the address while the Pod is replaced.
        if !state.address.is_empty() {
            instance.address = state.address;
        }
    }
    slots::update(cluster, observed, &mut status.instances);
    let generation = cluster.metadata.generation.unwrap_or_default();
    let conditions = new_conditions(cluster, &status.instances, observed, now);
    status.phase = phase(cluster, observed);
    status.reason = conditions.last().map_or_else(String::new, |ready| ready.reason.to_owned());
    status.control_paused = cluster.spec.paused;
    status.observed_generation = Some(generation);
    status.size = count(status.instances.len());
    status.members = names_by_readiness(&status.instances);
    status.ready_members = count(status.members.ready.len());
    status.selector = selector_string(cluster);
    status.services = service::names(cluster);
    if let Ok(served) = observed.version {
        let is_current = observed.outdated.is_empty() || status.current_version.is_empty();
        // The data have the former version until the upgrade is done. What is served was found before the decision,
        // in which the upgrade may have failed.
        let upgrades = served.previous.is_some() || observed.membership.upgrade_in_progress().is_some();
        if is_current && !upgrades {
            status.current_version.clone_from(&served.version);
        }
        let is_new = status.current_version != served.version;
        status.target_version = if is_new { served.version.clone() } else { String::new() };
    }
    archiving::update(observed, &mut status);
    status.conditions = set_conditions(&status.conditions, &conditions, generation, now);
    status
}

fn phase(cluster: &PostgresCluster, observed: &Observation<'_>) -> Phase {
    let membership = observed.membership;
    match &membership.failover.current {
        _ if upgrade::is_upgrading(membership) => Phase::Upgrading,
        _ if cluster.spec.hibernated && observed.pods.is_empty() => Phase::Hibernated,
        _ if membership.is_recovering() => Phase::Recovering,
        _ if !membership.is_bootstrapped() => Phase::Creating,
        _ if membership.is_adopting() => Phase::Recovering,
        None if membership.failover.switchover.is_some() => Phase::SwitchingOver,
        None => Phase::FailingOver,
        Some(_) if !observed.outdated.is_empty() => Phase::Upgrading,
        Some(_) => Phase::Running,
    }
}

fn count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

fn names_by_readiness(instances: &[InstanceStatus]) -> Members {
    let names = |ready: bool| {
        let instances = instances.iter().filter(|instance| instance.ready == ready);
        instances.map(|instance| instance.name.clone()).collect()
    };
    Members { ready: names(true), unready: names(false) }
}

fn new_conditions(
    cluster: &PostgresCluster,
    instances: &[InstanceStatus],
    observed: &Observation<'_>,
    now: Timestamp,
) -> [NewCondition; 12] {
    let available = fencing::with_remarks(cluster, observed, available(cluster, instances, observed));
    let data_safe = data_safe(cluster, observed);
    let scaling = scaling(cluster, instances, observed);
    let version = version_supported(observed.version);
    let retained = volumes::volumes_retained(cluster, observed);
    let upgrading = upgrading(cluster, observed);
    let applied = configuration_applied(cluster, observed);
    let databases = databases::databases_applied(cluster, observed);
    let storage = storage::storage_healthy(cluster, observed);
    let archiving = archiving::archiving(cluster, observed);
    let recent = observed.backups.condition(cluster, now);
    let is_archiving = Some(&archiving).filter(|_| cluster.spec.backup.is_some());
    // Volumes that grow, or have little space, keep no member from its work.
    let full = Some(&storage).filter(|storage| storage.reason == reasons::FULL);
    let parts = [&available, &scaling, &upgrading, &applied, &databases];
    let parts: Vec<_> = parts.into_iter().chain(full).chain(is_archiving).collect();
    let ready = summary(cluster, instances, &parts);
    [
        available, data_safe, scaling, upgrading, applied, databases, storage, version, retained, archiving,
        recent, ready,
    ]
}

fn available(
    cluster: &PostgresCluster,
    instances: &[InstanceStatus],
    observed: &Observation<'_>,
) -> NewCondition {
    let membership = observed.membership;
    let primary = instances.iter().find(|instance| membership.is_primary(instance.serial));
    let is_false = |reason, message: String| NewCondition::is_false(AVAILABLE, reason, message);
    match (primary, observed.obstacle) {
        _ if cluster.spec.hibernated => {
            is_false(reasons::HIBERNATED, fencing::describe_hibernation(observed))
        }
        _ if upgrade::is_upgrading(membership) => upgrade::available(membership),
        (Some(primary), _) if fence(cluster).contains(&primary.name) => {
            is_false(reasons::FENCED, fencing::describe(&primary.name))
        }
        // Nobody else may take over. It goes on when its volume has grown.
        (Some(primary), None | Some(FailoverObstacle::Disabled))
            if !primary.ready && is_full(observed, primary.serial) =>
        {
            let message =
                format!("the volume of the primary {} is full; raise spec.storage.size", primary.name);
            is_false(reasons::DISK_FULL, message)
        }
        (None, _) if membership.is_recovering() => recovery::available(observed),
        (_, Some(obstacle)) => {
            let (reason, message) = describe_obstacle(obstacle);
            is_false(reason, message)
        }
        (Some(primary), None) if primary.ready => {
            let waits = waiting_switchover(cluster, observed).unwrap_or_default();
            let message = format!("{} takes writes{waits}", primary.name);
            NewCondition::is_true(AVAILABLE, reasons::AS_SPECIFIED, message)
        }
        (Some(primary), None) => {
            is_false(reasons::NO_PRIMARY, format!("the primary {} is not ready", primary.name))
        }
        (None, None) if membership.is_adopting() && membership.failover.target.is_none() => is_false(
            reasons::RECOVERING,
            "the members of the former cluster are asked what they have".to_owned(),
        ),
        (None, None) if membership.is_bootstrapped() => {
            let failover = &membership.failover;
            let is_planned = failover.switchover.is_some();
            let reason = if is_planned { reasons::SWITCHING_OVER } else { reasons::FAILING_OVER };
            let message = match &failover.target {
                Some(target) => format!("{target} becomes the primary"),
                None if is_planned => "the primary stops".to_owned(),
                None => "the members are asked what they have".to_owned(),
            };
            is_false(reason, message)
        }
        (None, None) if let Some(problem) = observed.recovery_problem => {
            is_false(reasons::RECOVERY_FAILING, problem.describe())
        }
        (None, None) => is_false(reasons::NO_PRIMARY, "no member has created the database yet".to_owned()),
    }
}

/// Returns whether the volume of a member is full.
fn is_full(observed: &Observation<'_>, serial: Serial) -> bool {
    observed.reports.get(&serial).is_some_and(|report| report.disk_full)
}

/// Returns why a switchover that is requested has not begun.
fn waiting_switchover(cluster: &PostgresCluster, observed: &Observation<'_>) -> Option<String> {
    let request = cluster.annotations().get(SWITCHOVER)?;
    let is_due = observed.membership.failover.switchover.as_ref() != Some(request);
    let successors = match observed.successors.join(", ") {
        none if none.is_empty() => "no standby".to_owned(),
        names => names,
    };
    is_due.then(|| {
        format!(
            "; the switchover to {request} waits until that member streams and has caught up, as {successors} has"
        )
    })
}

fn describe_obstacle(obstacle: &FailoverObstacle) -> (&'static str, String) {
    match obstacle {
        FailoverObstacle::NoQuorum(missing) => {
            let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
            (reasons::NO_QUORUM, format!("{}{FORCE}", missing.join("; ")))
        }
        FailoverObstacle::TooFarBehind(bytes) => (
            reasons::ASYNC_LAG,
            format!(
                "the member with the most WAL lacks {bytes} bytes, more than spec.failover.maxLagBytes; raise it, or wait for the former primary{FORCE}"
            ),
        ),
        FailoverObstacle::Unprotected => (
            reasons::SYNC_LOWERED,
            format!(
                "the former primary took writes without a standby, and only it is known to have them; wait for it{FORCE}"
            ),
        ),
        FailoverObstacle::DiskFull(members) => (
            reasons::DISK_FULL,
            format!("the volumes of {} are full; raise spec.storage.size", members.join(", ")),
        ),
        FailoverObstacle::Disabled => (
            reasons::FAILOVER_DISABLED,
            "the primary has failed, and spec.failover.enabled is false".to_owned(),
        ),
    }
}

/// True if a commit is acknowledged only after as many standbys have it as the spec says.
fn data_safe(cluster: &PostgresCluster, observed: &Observation<'_>) -> NewCondition {
    let is_false = |reason, message: &str| NewCondition::is_false(DATA_SAFE, reason, message);
    let wanted = cluster.spec.synchronous.number(usize::try_from(cluster.spec.size).unwrap_or_default());
    let reigns = &observed.membership.failover.reigns;
    let number = reigns.iter().map(|reign| reign.configuration.number()).min().unwrap_or_default();
    if observed.membership.members.len() < 2 {
        is_false(reasons::SINGLE_MEMBER, "no other member has a copy of the data")
    } else if wanted == 0 {
        is_false(reasons::ASYNCHRONOUS, "a commit waits for no standby; see spec.synchronous.number")
    } else if number < wanted {
        let message = format!("a commit waits for {number} of the {wanted} standbys that the spec requires");
        is_false(reasons::SYNC_LOWERED, &message)
    } else {
        let message = format!("a commit waits for {number} standbys");
        NewCondition::is_true(DATA_SAFE, reasons::AS_SPECIFIED, message)
    }
}

/// True while the number of members changes; false with a reason if it should change and cannot.
fn scaling(
    cluster: &PostgresCluster,
    instances: &[InstanceStatus],
    observed: &Observation<'_>,
) -> NewCondition {
    if let Some((reason, message)) = blocked(cluster, observed) {
        return NewCondition::is_false(SCALING, reason, message);
    }
    let joined = instances.iter().filter(|instance| instance.joined && !instance.leaving).count();
    let message = format!("{joined} of {} members have joined", cluster.spec.size);
    let leaving = instances.iter().any(|instance| instance.leaving);
    if count(joined) == cluster.spec.size && !leaving {
        return NewCondition::is_false(SCALING, reasons::AS_SPECIFIED, message);
    }
    if cluster.spec.paused {
        return NewCondition::is_false(SCALING, reasons::PAUSED, format!("{message}; spec.paused is true"));
    }
    NewCondition::is_true(SCALING, reasons::SCALING, message)
}

/// True while Pods of a former spec are replaced; false with a reason if that waits for a person.
fn upgrading(cluster: &PostgresCluster, observed: &Observation<'_>) -> NewCondition {
    let is_false = |reason, message| NewCondition::is_false(UPGRADING, reason, message);
    if let Ok(Served { deviation: Some(deviation), .. }) = observed.version
        && [reasons::MAJOR_VERSION_CHANGE, reasons::MAJOR_UPGRADE_FAILED, reasons::NOT_IN_CATALOG]
            .contains(&deviation.reason)
    {
        return is_false(deviation.reason, deviation.message.clone());
    }
    if let Some(condition) = upgrade::upgrading(observed) {
        return condition;
    }
    let members = observed.membership.members.len();
    let message =
        format!("{} of {members} Pods are as specified", members.saturating_sub(observed.outdated.len()));
    let is_manual = cluster.spec.updates.primary == PrimaryUpdate::Manual;
    match observed.outdated {
        [] => is_false(reasons::AS_SPECIFIED, message),
        _ if cluster.spec.paused => is_false(reasons::PAUSED, format!("{message}; spec.paused is true")),
        [serial] if is_manual && observed.membership.is_primary(*serial) => {
            let primary = member_name(cluster, *serial);
            let remedy = if members == 1 {
                format!("delete the Pod {primary} to restart the primary")
            } else {
                format!("set the annotation {SWITCHOVER}=any to replace the primary {primary}")
            };
            is_false(reasons::SWITCHOVER_REQUIRED, format!("{message}; {remedy}"))
        }
        _ => NewCondition::is_true(UPGRADING, reasons::ROLLING_OUT, message),
    }
}

/// True if all members that answer use the parameters of the spec.
fn configuration_applied(cluster: &PostgresCluster, observed: &Observation<'_>) -> NewCondition {
    let is_false = |reason, message| NewCondition::is_false(CONFIGURATION_APPLIED, reason, message);
    let reports = || observed.reports.iter().map(|(serial, report)| (member_name(cluster, *serial), report));
    let wanted = fingerprint(&cluster.spec.parameters);
    // A member that has not read any yet is about to start.
    let is_new = |report: &InstanceReport| report.parameters.is_some_and(|read| read != wanted);
    if let Some((member, _)) = reports().find(|(_, report)| is_new(report)) {
        return is_false(reasons::RECONCILING, format!("{member} has not read spec.parameters yet"));
    }
    if let Some(message) = slots::refusal(cluster, reports()) {
        return is_false(reasons::PARAMETERS_REFUSED, message);
    }
    let refusal = |(member, report): (String, &InstanceReport)| {
        report.refused_parameters.as_ref().map(|reason| format!("PostgreSQL of {member}: {reason}"))
    };
    if let Some(message) = reports().find_map(refusal) {
        return is_false(reasons::PARAMETERS_REFUSED, message);
    }
    match reports().find(|(_, report)| report.pending_restart) {
        Some((member, _)) => {
            is_false(reasons::RESTART_PENDING, format!("{member} has to restart for a parameter"))
        }
        None => NewCondition::is_true(
            CONFIGURATION_APPLIED,
            reasons::AS_SPECIFIED,
            "the members use spec.parameters".to_owned(),
        ),
    }
}

/// Returns what a person has to solve, as a reason and a message.
fn blocked(cluster: &PostgresCluster, observed: &Observation<'_>) -> Option<(&'static str, String)> {
    if let Some(failure) = observed.failures.first() {
        return Some((failure.reason, failure.message.clone()));
    }
    if let Err(unsupported) = observed.version {
        return Some((unsupported.reason, unsupported.message.clone()));
    }
    if let Some(problem) = observed.adoption_problem {
        return Some((reasons::VOLUME_CONFLICT, volumes::describe(cluster, problem)));
    }
    if let Some(problem) = observed.recovery_problem {
        return Some((reasons::RECOVERY_FAILING, problem.describe()));
    }
    let (serial, problem) = observed.problems.first()?;
    Some(describe(*problem, &member_name(cluster, *serial)))
}

fn describe(problem: VolumeProblem, member: &str) -> (&'static str, String) {
    match problem {
        VolumeProblem::Lost => (
            reasons::VOLUME_LOST,
            format!(
                "the PersistentVolumeClaim {member} no longer exists; lower spec.size by one, and raise it again, to replace the member {member}"
            ),
        ),
        VolumeProblem::Replaced => (
            reasons::VOLUME_CONFLICT,
            format!(
                "the PersistentVolumeClaim {member} is not the one that the member used; its data are not touched"
            ),
        ),
        VolumeProblem::Conflict => (
            reasons::VOLUME_CONFLICT,
            format!(
                "the PersistentVolumeClaim {member} exists and was not created for this cluster; its data are not touched; delete it, or give the cluster another name"
            ),
        ),
        VolumeProblem::Emptied => (
            reasons::VOLUME_LOST,
            format!(
                "the PersistentVolumeClaim {member} had data and is empty, so rows of the member {member} may be lost"
            ),
        ),
        VolumeProblem::Terminating => {
            (reasons::VOLUME_TERMINATING, format!("the PersistentVolumeClaim {member} is being deleted"))
        }
    }
}

fn version_supported(version: &Result<Served, Unsupported>) -> NewCondition {
    match version {
        Ok(Served { deviation: None, version, .. }) => {
            NewCondition::is_true(VERSION_SUPPORTED, reasons::AS_SPECIFIED, format!("PostgreSQL {version}"))
        }
        Ok(Served { deviation: Some(unsupported), .. }) | Err(unsupported) => {
            NewCondition::is_false(VERSION_SUPPORTED, unsupported.reason, unsupported.message.clone())
        }
    }
}

/// Computes Ready: true if all members are ready and nothing else is to be done.
fn summary(cluster: &PostgresCluster, instances: &[InstanceStatus], parts: &[&NewCondition]) -> NewCondition {
    if let Some(part) = parts.iter().find(|part| part.reason != reasons::AS_SPECIFIED) {
        return NewCondition::is_false(READY, part.reason, part.message.clone());
    }
    let ready = instances.iter().filter(|instance| instance.ready).count();
    let message = format!("{ready} of {} members are ready", cluster.spec.size);
    if ready == instances.len() {
        NewCondition::is_true(READY, reasons::AS_SPECIFIED, message)
    } else {
        NewCondition::is_false(READY, reasons::PODS_NOT_READY, message)
    }
}

#[cfg(test)]
mod tests;
